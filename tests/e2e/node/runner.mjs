// Runs scripts that others ask for, one after the other, in a process that imports their packages once.
//
// A line of stdin is a JSON list: a script, and the words to call it with. It ends when its module is evaluated. A line
// of stdout answers: exit code, stdout, stderr.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";

const stdout = process.stdout.write.bind(process.stdout);
const connections = Symbol.for("undici.globalDispatcher.1"); // what fetch uses, and keeps open
let runs = 0;

for await (const line of createInterface({ input: process.stdin })) {
  const [script, ...words] = JSON.parse(line);
  const printed = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) {
    process[name].write = (text) => {
      printed[name] += text;
      return true;
    };
  }
  process.argv = [process.argv[0], script, ...words];
  let code = 0;
  try {
    await import(`${pathToFileURL(script)}?run=${++runs}`); // a module of its own each time, the packages' are shared
  } catch (error) {
    printed.stderr += inspect(error);
    code = 1;
  }
  if (globalThis[connections]) {
    // The next script connects anew, as a program of its own would.
    const used = globalThis[connections];
    globalThis[connections] = new used.constructor();
    await used.destroy();
  }
  stdout(`${JSON.stringify([code, printed.stdout, printed.stderr])}\n`);
}
