import { defaultConfigPath } from "../../agent/mod.ts"
import type { Command } from "../../tools/command.ts"

/** `--config`, of all commands that read the agent's configuration. */
export const configFlag = {
  config: { type: "string", value: "FILE", help: `the agent's configuration (default ${defaultConfigPath})` },
} as const satisfies Command["flags"]
