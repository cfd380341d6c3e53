// What the JavaScript clients that can be asked have in common: a client declares what it is told to, answers with its
// own name, cancels and listens.
//
// argv: ENDPOINT [MODE], where ENDPOINT is a URL, or the argv of a server over stdio as a JSON array. stdin:
// {"name": …, "capabilities": {…}, "known": […], "steps": […], "inOrder": …, "watch": …}. A step is a tool with its
// arguments, or a prompt where "prompt" is true; with "cancelAfter" it is cancelled at that event of progress. The steps
// are called at once, or one by one where inOrder is true. Each text that a server asks with must hold the name or be one
// of known. watch is {"uris": […], "trigger": STEP, "want": […]}: the client listens for changes of the tools and of the
// resources, calls trigger until it has heard all that it wants, each as often as it is there, for twenty seconds at most. stdout: {"protocolVersion",
// "tools", "answers", "strange", "heard", "triggers"}, where each answer is the text of the result, {error}, or {cancelled}
// with the events seen, and strange lists the questions that were somebody else's.

export async function readScript() {
    const chunks = [];
    for await (const chunk of process.stdin) chunks.push(chunk);
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
}

// The transport to an endpoint; http and stdio are the SDK's classes.
export function transport(endpoint, http, stdio) {
    if (!endpoint.startsWith('[')) return new http(new URL(endpoint));
    const [command, ...args] = JSON.parse(endpoint);
    return new stdio({ command, args });
}

// What the user of the client fills a form with.
function filled(schema, text) {
    const fill = { boolean: true, string: text };
    return Object.fromEntries(Object.entries(schema.properties).map(([key, { type }]) => [key, fill[type]]));
}

const textOf = (result) => (result.content ?? result.messages.map((message) => message.content)).map((item) => item.text).join('\n');

// client is the SDK's Client, not yet connected. asked(method, handler) and told(method, handler) set its handlers,
// call(step, options) calls a tool, and listen(uris) returns when the client hears of changes.
export async function run(script, { client, connect, protocolVersion, asked, told, call, listen }) {
    const { name, capabilities, known = [], steps = [], inOrder = false, watch } = script;
    const report = { answers: [], strange: [], heard: [], triggers: 0 };
    const mine = (text) => {
        if (!text.includes(name) && !known.includes(text)) report.strange.push(text);
    };
    if (capabilities.sampling) {
        asked('sampling/createMessage', async ({ params }) => {
            const content = [params.messages[0].content].flat()[0];
            mine(content.text);
            return { role: 'assistant', model: 'none', content: { type: 'text', text: `${name} says: ${content.text}` } };
        });
    }
    if (capabilities.elicitation) {
        asked('elicitation/create', async ({ params }) => {
            mine(params.message);
            return { action: 'accept', content: filled(params.requestedSchema, `${name} on: ${params.message}`) };
        });
    }
    if (capabilities.roots) {
        asked('roots/list', async () => ({ roots: [{ uri: `file:///${name}`, name }] }));
    }
    let news = () => {};
    const hear = (what) => {
        report.heard.push(what);
        news();
    };
    if (watch) {
        told('notifications/tools/list_changed', async () => hear('tools'));
        told('notifications/resources/updated', async ({ params }) => hear(params.uri));
    }

    const one = async (step) => {
        const controller = new AbortController();
        let seen = 0;
        const options = {};
        if (step.cancelAfter) {
            options.signal = controller.signal;
            options.onprogress = () => {
                if (++seen === step.cancelAfter) controller.abort('enough');
            };
        }
        try {
            const params = { name: step.name, arguments: step.arguments };
            return textOf(step.prompt ? await client.getPrompt(params, options) : await call(params, options));
        } catch (error) {
            if (controller.signal.aborted) return { cancelled: seen };
            return { error: { code: error.code ?? null, message: String(error.message) } };
        }
    };

    await connect();
    report.protocolVersion = protocolVersion();
    report.tools = (await client.listTools()).tools.map((tool) => tool.name);
    if (inOrder) {
        for (const step of steps) report.answers.push(await one(step));
    } else {
        report.answers = await Promise.all(steps.map(one));
    }
    if (watch) {
        const done = await listen(watch.uris);
        const deadline = Date.now() + 20_000;
        const count = (list, what) => list.filter((one) => one === what).length;
        const lacks = () => watch.want.some((what) => count(report.heard, what) < count(watch.want, what));
        while (lacks() && Date.now() < deadline) {
            report.triggers++;
            await one(watch.trigger);
            const until = Date.now() + 4_000;
            while (lacks() && Date.now() < until) {
                await new Promise((resolve) => {
                    news = resolve;
                    setTimeout(resolve, 200);
                });
            }
        }
        await done();
    }
    // The session at an HTTP endpoint is left open on purpose: what it caused at the servers stays to be looked at.
    await client.close();
    process.stdout.write(JSON.stringify(report));
}
