// A client on the first TypeScript SDK and its experimental tasks: the legacy dialect. A tool that does not say that it
// makes tasks is simply called. See tasks.mjs for what goes in and out.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, CreateTaskResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { failure, perform, readSteps, user } from './tasks.mjs';

const [, , endpoint] = process.argv;
const at = user();
const client = new Client({ name: 'peer-tasks-v1', version: '1.0.0' }, { capabilities: { elicitation: { form: {} } } });
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => at.reply(params));

function connection() {
    if (!endpoint.startsWith('[')) return new StreamableHTTPClientTransport(new URL(endpoint));
    const [command, ...args] = JSON.parse(endpoint);
    return new StdioClientTransport({ command, args });
}
const transport = connection();
let version;
const told = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (v) => {
    version = v;
    told?.(v);
};
// The SDK does not wait until a cancel is sent; whoever ends right afterwards has to.
let sent;
const send = transport.send.bind(transport);
transport.send = (...args) => (sent = send(...args));
await client.connect(transport);
const tools = (await client.listTools()).tools;
const supports = (name) => tools.find((tool) => tool.name === name)?.execution?.taskSupport ?? 'forbidden';
const tasks = client.experimental.tasks;

async function run({ name, arguments: args = {}, cancelAt }) {
    if (supports(name) === 'forbidden') {
        const controller = new AbortController();
        if (cancelAt) setTimeout(() => controller.abort('enough'), 500);
        try {
            const result = await client.callTool({ name, arguments: args }, undefined, { signal: controller.signal });
            return { immediate: true, status: 'completed', result };
        } finally {
            await sent;
        }
    }
    const answer = { statuses: [] };
    const saw = async ({ taskId, status }) => {
        answer.task = taskId;
        if (status === answer.statuses.at(-1)) return;
        answer.statuses.push(status);
        if (status === cancelAt) await tasks.cancelTask(taskId);
    };
    for await (const message of tasks.callToolStream({ name, arguments: args }, undefined, { task: { ttl: 60_000 } })) {
        if (message.task) await saw(message.task);
        if (message.result) answer.result = message.result;
        if (message.error) answer.error = failure(message.error);
    }
    answer.status = (await tasks.getTask(answer.task)).status;
    return answer;
}

await perform(
    await readSteps(),
    {
        run,
        start: async ({ name, arguments: args = {} }) => {
            const { task } = await client.request({ method: 'tools/call', params: { name, arguments: args } }, CreateTaskResultSchema, {
                task: { ttl: 60_000 },
            });
            return { task: task.taskId };
        },
        look: async ({ taskId }) => {
            const { taskId: task, status } = await tasks.getTask(taskId);
            return { task, status };
        },
        await: async ({ taskId }) => {
            const result = await tasks.getTaskResult(taskId, CallToolResultSchema);
            return { task: taskId, status: (await tasks.getTask(taskId)).status, result };
        },
        cancel: async ({ taskId }) => {
            const { taskId: task, status } = await tasks.cancelTask(taskId);
            return { task, status };
        },
        list: async () => ({ tasks: (await tasks.listTasks()).tasks.map((task) => task.taskId) }),
    },
    at,
    { protocolVersion: version, tools },
);
await client.close();
