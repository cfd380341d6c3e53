// A client on the first TypeScript SDK that can be asked: it declares what argv says, answers with its own name, and
// fails on a question that is not its own.
//
// argv: URL. stdin: {"name": …, "capabilities": {…}, "steps": [{"name": …, "arguments": …}]}. The steps are called at
// once, and each text that a server asks with must hold the name. stdout: {"tools": […], "answers": […], "strange": […]},
// where each answer is the text of the result, or {error}, and strange lists the questions that were somebody else's.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { name, capabilities, steps } = JSON.parse(Buffer.concat(chunks).toString('utf8'));

const strange = [];
const mine = (text) => {
    if (!text.includes(name)) strange.push(text);
};
const client = new Client({ name: `peer-asked-${name}`, version: '1.0.0' }, { capabilities });
if (capabilities.sampling) {
    client.setRequestHandler(CreateMessageRequestSchema, async ({ params }) => {
        const { text } = params.messages[0].content;
        mine(text);
        return { role: 'assistant', model: 'none', content: { type: 'text', text: `${name} says: ${text}` } };
    });
}
if (capabilities.elicitation) {
    client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
        mine(params.message);
        return { action: 'accept', content: { username: `${name} on: ${params.message}` } };
    });
}
if (capabilities.roots) {
    client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: [{ uri: `file:///${name}`, name }] }));
}
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const answers = await Promise.all(
    steps.map(async (step) => {
        try {
            const result = await client.callTool(step);
            return result.content.map((item) => item.text).join('\n');
        } catch (error) {
            return { error: { code: error.code ?? null, message: String(error.message) } };
        }
    }),
);
process.stdout.write(JSON.stringify({ tools, answers, strange }));
// The session is left open on purpose: what it caused at the servers stays to be looked at.
