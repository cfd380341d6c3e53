// A client on the first TypeScript SDK that can be asked: legacy revisions only. See asked.mjs for what goes in and out.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
    ResourceUpdatedNotificationSchema,
    ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { readScript, run, transport } from './asked.mjs';

const schemas = Object.fromEntries(
    [CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, ResourceUpdatedNotificationSchema, ToolListChangedNotificationSchema].map(
        (schema) => [schema.shape.method.value, schema],
    ),
);
const script = await readScript();
const client = new Client({ name: `peer-asked-${script.name}`, version: '1.0.0' }, { capabilities: script.capabilities });
const way = transport(process.argv[2], StreamableHTTPClientTransport, StdioClientTransport);
let version;
way.setProtocolVersion = ((set) =>
    function (agreed) {
        version = agreed;
        set?.call(this, agreed);
    })(way.setProtocolVersion);
await run(script, {
    client,
    connect: () => client.connect(way),
    protocolVersion: () => version,
    asked: (method, handler) => client.setRequestHandler(schemas[method], handler),
    told: (method, handler) => client.setNotificationHandler(schemas[method], handler),
    call: (params, options) => client.callTool(params, undefined, options),
    listen: async (uris) => {
        for (const uri of uris) await client.subscribeResource({ uri });
        return async () => {
            for (const uri of uris) await client.unsubscribeResource({ uri });
        };
    },
});
