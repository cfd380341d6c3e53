// A client on the second TypeScript SDK that can be asked. MODE is auto, legacy, or a modern revision to insist on. See
// asked.mjs for what goes in and out.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { readScript, run, transport } from './asked.mjs';

const [, , endpoint, mode = 'auto'] = process.argv;
const script = await readScript();
const client = new Client(
    { name: `peer-asked-${script.name}`, version: '1.0.0' },
    {
        capabilities: script.capabilities,
        versionNegotiation: { mode: mode === 'auto' || mode === 'legacy' ? mode : { pin: mode } },
    },
);
const modern = () => client.getNegotiatedProtocolVersion() >= '2026';
await run(script, {
    client,
    connect: () => client.connect(transport(endpoint, StreamableHTTPClientTransport, StdioClientTransport)),
    protocolVersion: () => client.getNegotiatedProtocolVersion(),
    asked: (method, handler) => client.setRequestHandler(method, handler),
    told: (method, handler) => client.setNotificationHandler(method, handler),
    call: (params, options) => client.callTool(params, options),
    listen: async (uris) => {
        if (modern()) {
            const subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: uris });
            return () => subscription.close();
        }
        for (const uri of uris) await client.subscribeResource({ uri });
        return async () => {
            for (const uri of uris) await client.unsubscribeResource({ uri });
        };
    },
});
