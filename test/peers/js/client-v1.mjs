// A client on the first TypeScript SDK: legacy revisions only. See script.mjs for what goes in and out.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { run } from './script.mjs';

const client = new Client({ name: 'peer-ts-v1', version: '1.0.0' });
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]));
await client.connect(transport);
await run(client, () => transport.protocolVersion);
