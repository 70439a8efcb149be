#!/usr/bin/env node
// Offers only tools that read outside of working hours, 8 to 18 o'clock in UTC. Uses the time of the event.
const { timestamp } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const hour = new Date(timestamp).getUTCHours();
if (hour < 8 || hour >= 18) {
  const allowedFunctionNames = ["read_file", "list_directory", "glob"];
  // AUTO leaves the choice between these tools and a text to the model.
  console.log(JSON.stringify({ hookSpecificOutput: { toolConfig: { mode: "AUTO", allowedFunctionNames } } }));
}
