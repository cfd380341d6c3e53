// What the two JavaScript clients have in common: the script they are given and the report they give back.
//
// argv: URL [MODE]. stdin: {"steps": [{"method": …, "params": …}]}. stdout: one JSON report,
// {protocolVersion, serverInfo, tools, prompts, resources, resourceTemplates, answers}, where each answer is
// {result} or {error: {code, message}}, in the order of the steps. `client` needs the SDK's Client, connected.

const verbs = {
    'tools/call': 'callTool',
    'prompts/get': 'getPrompt',
    'resources/read': 'readResource',
    'completion/complete': 'complete',
};

async function readStdin() {
    const chunks = [];
    for await (const chunk of process.stdin) chunks.push(chunk);
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
}

// Follows nextCursor itself, so that it does not matter whether the SDK under test walks pages of its own accord.
async function walk(client, verb, member) {
    const items = [];
    let cursor;
    do {
        const page = await client[verb](cursor === undefined ? {} : { cursor });
        items.push(...page[member]);
        cursor = page.nextCursor;
    } while (cursor !== undefined);
    return items;
}

export async function run(client, protocolVersion) {
    const { steps } = await readStdin();
    const can = client.getServerCapabilities() ?? {};
    const report = {
        protocolVersion: protocolVersion(),
        serverInfo: client.getServerVersion(),
        tools: can.tools ? await walk(client, 'listTools', 'tools') : [],
        prompts: can.prompts ? await walk(client, 'listPrompts', 'prompts') : [],
        resources: can.resources ? await walk(client, 'listResources', 'resources') : [],
        resourceTemplates: can.resources ? await walk(client, 'listResourceTemplates', 'resourceTemplates') : [],
        answers: [],
    };
    for (const { method, params } of steps) {
        try {
            report.answers.push({ result: await client[verbs[method]](params) });
        } catch (error) {
            report.answers.push({ error: { code: error.code ?? null, message: String(error.message) } });
        }
    }
    await client.close();
    process.stdout.write(JSON.stringify(report));
}
