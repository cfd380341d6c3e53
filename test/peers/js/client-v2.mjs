// A client on the second TypeScript SDK. MODE is auto, legacy, or a modern revision to insist on.
// See script.mjs for what goes in and out.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { run } from './script.mjs';

const [, , url, mode = 'auto'] = process.argv;
const client = new Client(
    { name: 'peer-ts-v2', version: '1.0.0' },
    { versionNegotiation: { mode: mode === 'auto' || mode === 'legacy' ? mode : { pin: mode } } },
);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
await run(client, () => client.getNegotiatedProtocolVersion());
