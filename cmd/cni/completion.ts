import { completionHelp, completionScript, shells } from "../completion.ts"
import { type Command, UsageError, word } from "./command.ts"

/** `cni completion` */
export const completionCommand: Command = {
  summary: `Print a script that completes command lines in a shell: ${shells.join(", ")}`,
  words: ["SHELL"],
  flags: {},
  help: completionHelp("cni"),
  async run(args, { stdout }) {
    const script = completionScript("cni", word(args, 0))
    if (script === undefined) throw new UsageError(`unknown shell ${word(args, 0)}: expected ${shells.join(", ")}`)
    stdout(script)
  },
}
