// Gemini CLI's own hook runner: for each line {command, input, count} on stdin, the microseconds of each run.
// node gemini_runner.mjs GEMINI_CLI_FOLDER
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import {pathToFileURL} from 'node:url';

const bundle = path.join(process.argv[2], 'bundle');
const cores = fs.readdirSync(bundle).filter((name) => /^core-.*\.js$/.test(name));
const {HookRunner} = await import(pathToFileURL(path.join(bundle, cores[0])));

console.debug = console.log = console.warn = () => {}; // stdout is for the answers alone

const runner = new HookRunner({
  isTrustedFolder: () => true,
  sanitizationConfig: {},
  storage: {getPlansDir: () => '/tmp/plans'},
});

for await (const line of readline.createInterface({input: process.stdin})) {
  const {command, input, count} = JSON.parse(line);
  const begin = process.hrtime.bigint();
  for (let run = 0; run < count; run += 1) {
    const result = await runner.executeHook({type: 'command', command, timeout: 60000}, 'BeforeTool', input);
    if (!result.success) throw new Error(JSON.stringify(result));
  }
  const microseconds = Number(process.hrtime.bigint() - begin) / 1000 / count;
  process.stdout.write(`${microseconds}\n`);
}
