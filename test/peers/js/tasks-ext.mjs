// A client on the official package for tasks, ext-tasks, over the second TypeScript SDK: both dialects. MODE is auto or
// legacy. See tasks.mjs for what goes in and out.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createTaskSessionFromClient, toolDeclarationFromMcpTool } from '@modelcontextprotocol/ext-tasks/client';
import { failure, perform, readSteps, user } from './tasks.mjs';

const [, , endpoint, mode = 'auto'] = process.argv;
const at = user();
const info = { name: 'peer-ext-tasks', version: '1.0.0' };
const capabilities = { elicitation: { form: {} } };
const client = new Client(info, { capabilities, versionNegotiation: { mode } });

function connection() {
    if (!endpoint.startsWith('[')) return new StreamableHTTPClientTransport(new URL(endpoint));
    const [command, ...args] = JSON.parse(endpoint);
    return new StdioClientTransport({ command, args });
}
const transport = connection();
await client.connect(transport);

// The SDK's Client does not let results of the extension through, so the package asks its host to send these requests:
// over the same transport, under ids that are not the SDK's.
const waiting = new Map();
const passOn = transport.onmessage;
transport.onmessage = (message, extra) => {
    const take = waiting.get(message.id);
    if (take === undefined || message.method !== undefined) return passOn(message, extra);
    waiting.delete(message.id);
    take(message);
};
let sent = 0;
function rawDispatch(request, { signal } = {}) {
    const id = `task-${++sent}`;
    return new Promise((resolve, reject) => {
        waiting.set(id, ({ result, error }) => resolve(error ? { kind: 'error', error } : { kind: 'result', result }));
        signal?.addEventListener('abort', () => reject(signal.reason));
        transport.send({ ...request, jsonrpc: '2.0', id }).catch(reject);
    });
}

// In the legacy dialect the client decides, by what the tools say of themselves.
const tools = (await client.listTools()).tools;
const declared = new Map(tools.map((tool) => [tool.name, toolDeclarationFromMcpTool(tool)]));
const version = client.getNegotiatedProtocolVersion();
const session = createTaskSessionFromClient(client, {
    endpointId: 'penstock',
    rawDispatch,
    v2RequestFraming: { protocolVersion: version, clientInfo: info, clientCapabilities: capabilities },
    tools: { currentTool: (name) => declared.get(name) },
    onInputRequest: async ({ kind, params }) => {
        if (kind !== 'elicitation') throw new Error(`asked for ${kind}`);
        return at.reply(params);
    },
});

const ended = ({ status, result, error }) => ({ status, ...(result && { result }), ...(error && { error: failure(error) }) });

async function settled(execution, cancelAt) {
    const statuses = [];
    let cancelled;
    const { outcome } = await execution.settle({
        onEvent: ({ task }) => {
            if (task === undefined || task.status === statuses.at(-1)) return;
            statuses.push(task.status);
            if (task.status === cancelAt) cancelled = execution.cancel();
        },
    });
    await cancelled;
    const what = execution.kind === 'task' ? { task: execution.handle.taskId } : { immediate: true };
    return { ...what, statuses, ...ended(outcome) };
}

const call = ({ name, arguments: args = {} }) => session.callTool(name, args, { task: { preference: 'prefer' } });
await perform(
    await readSteps(),
    {
        run: async (step) => settled(await call(step), step.cancelAt),
        start: async (step) => {
            const execution = await call(step);
            if (execution.kind !== 'task') return { immediate: true };
            await execution.detach();
            return { task: execution.handle.taskId };
        },
        resume: async ({ taskId, cancelAt }) => {
            const generation = mode === 'legacy' ? 'v1' : 'v2';
            const reference = { endpointId: 'penstock', generation, taskId, originalOperation: 'tools/call' };
            return settled(await session.resumeTask(reference), cancelAt);
        },
        look: async ({ taskId }) => {
            const { taskId: task, status } = await session.task(taskId).snapshot();
            return { task, status };
        },
        await: async ({ taskId }) => ({ task: taskId, ...ended(await session.task(taskId).result()) }),
        update: async ({ taskId }) => {
            let raw;
            for (let tries = 0; tries < 400 && raw?.status !== 'input_required'; tries++) {
                ({ raw } = await session.task(taskId).snapshot());
                await new Promise((resolve) => setTimeout(resolve, 50));
            }
            const replies = Object.entries(raw.inputRequests ?? {}).map(([key, { params }]) => [key, at.reply(params)]);
            await session.task(taskId).update(Object.fromEntries(replies));
            return { task: taskId };
        },
        cancel: async ({ taskId }) => {
            await session.cancelTask(taskId);
            return { task: taskId };
        },
        list: async () => ({ tasks: (await session.listTasks()).tasks.map((task) => task.taskId) }),
    },
    at,
    { protocolVersion: version, tools },
);
await session.close();
await client.close();
