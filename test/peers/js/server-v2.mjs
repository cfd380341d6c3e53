// An upstream on the second TypeScript SDK: both eras at one URL, the legacy one without sessions.
// argv: PORT. Serves until it is killed.
import { createServer } from 'node:http';
import { completable, createMcpHandler, McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { z } from 'zod';

const cities = ['Aarhus', 'Aberdeen', 'Bergen', 'Bremen'];

function build() {
    const server = new McpServer({ name: 'peer-ts-v2-server', version: '1.0.0' });
    server.registerTool(
        'add',
        {
            title: 'Add',
            description: 'Adds two numbers',
            inputSchema: z.object({ a: z.number(), b: z.number() }),
            outputSchema: z.object({ sum: z.number() }),
            annotations: { readOnlyHint: true, idempotentHint: true },
        },
        ({ a, b }) => ({ content: [{ type: 'text', text: `${a + b}` }], structuredContent: { sum: a + b } }),
    );
    server.registerTool('link', { description: 'Links to a resource', inputSchema: z.object({}) }, () => ({
        content: [{ type: 'resource_link', uri: 'ts://notes/readme', name: 'readme', mimeType: 'text/plain' }],
    }));
    server.registerTool('refuse', { description: 'Always fails', inputSchema: z.object({}) }, () => ({
        isError: true,
        content: [{ type: 'text', text: 'refused on purpose: "ünïcödé" </script>\u2028' }],
    }));
    server.registerPrompt(
        'visit',
        {
            title: 'Visit',
            description: 'Plans a visit',
            argsSchema: z.object({ city: completable(z.string(), value => cities.filter(c => c.startsWith(value))) }),
        },
        ({ city }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Plan a day in ${city}.` } }] }),
    );
    server.registerResource('readme', 'ts://notes/readme', { mimeType: 'text/plain' }, uri => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'read me' }],
    }));
    server.registerResource(
        'city',
        new ResourceTemplate('ts://city/{name}', {
            list: undefined,
            complete: { name: value => cities.filter(c => c.startsWith(value)) },
        }),
        { mimeType: 'application/json' },
        (uri, { name }) => ({ contents: [{ uri: uri.href, mimeType: 'application/json', text: JSON.stringify({ name }) }] }),
    );
    return server;
}

const handler = toNodeHandler(createMcpHandler(build));
createServer(handler).listen(Number(process.argv[2]), '127.0.0.1');
