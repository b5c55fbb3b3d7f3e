import { defaultConfigPath, runAgent } from "../../agent/mod.ts"
import { version } from "../../package.json"
import { type Command, text } from "../../tools/command.ts"
import { configFlag } from "./flags.ts"

/** `cni-agent run` */
export const runCommand: Command = {
  summary: "Keep the pools and routes of this node until SIGTERM",
  words: [],
  flags: configFlag,
  isService: true,
  help: `Run one on each node. It logs to stderr. On SIGHUP it reads configuration, tokens and certificates again. SIGTERM ends it: its blocks stay
claimed, files and routes stay, and plugins continue to hand out addresses.

Examples:
  cni-agent run
  cni-agent run --config /etc/cni/agent.json`,
  async run(args, { env, stderr, signal }) {
    // It waits most of the time: code that the processor is given more of is made of what runs for seconds, not of each start.
    ;(Bun.unsafe as unknown as { setJITPolicy(scale: number): void }).setJITPolicy(1_000)
    const reload = new EventTarget()
    const hangUp = () => reload.dispatchEvent(new Event("reload"))
    process.on("SIGHUP", hangUp)
    try {
      await runAgent(text(args, "config") ?? defaultConfigPath, {
        env,
        write: stderr,
        end: signal,
        reload,
        version,
        usage: () => ({
          residentBytes: process.memoryUsage.rss(),
          cpuS: (process.cpuUsage().user + process.cpuUsage().system) / 1e6,
        }),
      })
    } finally {
      process.off("SIGHUP", hangUp)
    }
  },
}
