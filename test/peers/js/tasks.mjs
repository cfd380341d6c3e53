// What the two JavaScript clients that drive tasks have in common: the steps they are given and the report they give back.
//
// argv: ENDPOINT [MODE]. stdin: {"steps": [{"do", …}]}; a step that is about a task names it by taskId, or by from, the
// number of an earlier step. What steps do:
//
//   run     calls a tool as the user of the package would and waits for its end, answering questions with `answer`
//           (the content of a form; without it they are declined); with cancelAt it is cancelled at that status
//   start   calls a tool and lets go of the task
//   resume  takes a task up by its id alone, and goes on as run does
//   look    one look at a task
//   await   waits for the end of a task without owning it
//   update  waits until a task needs input, and answers every question of it, with `answer`
//   cancel  cancels a task
//   list    lists tasks
//
// stdout: {protocolVersion, tools, answers}, one answer per step: {task, immediate, statuses, asked, status, result, error},
// as far as the step has them. An error is {code, message}.

export async function readSteps() {
    const chunks = [];
    for await (const chunk of process.stdin) chunks.push(chunk);
    return JSON.parse(Buffer.concat(chunks).toString('utf8')).steps;
}

export const failure = (error) => ({ code: error.code ?? error.response?.code ?? null, message: String(error.message) });

// What the user says to a question: the answer of the step that is under way. asked collects what was said to the user.
export function user() {
    const at = { answer: undefined, asked: [] };
    at.reply = ({ message }) => {
        at.asked.push(message);
        return at.answer === undefined ? { action: 'decline' } : { action: 'accept', content: at.answer };
    };
    return at;
}

// verbs are the functions that do steps; each returns its answer.
export async function perform(steps, verbs, at, report) {
    report.answers = [];
    for (const step of steps) {
        at.answer = step.answer;
        at.asked = [];
        const taskId = step.taskId ?? report.answers[step.from]?.task;
        let answer;
        try {
            answer = await verbs[step.do]({ ...step, taskId });
        } catch (error) {
            answer = { error: failure(error) };
        }
        report.answers.push({ ...answer, ...(at.asked.length > 0 ? { asked: at.asked } : {}) });
    }
    process.stdout.write(JSON.stringify(report));
}
