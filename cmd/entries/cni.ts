import { runTool } from "../cni/main.ts"

export const run = () => runTool(process.argv.slice(2))
