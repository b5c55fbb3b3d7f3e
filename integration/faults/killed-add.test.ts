import { extent, pluginRow, pluginsAs, testPlugin } from "../lab/mod.ts"
import { chainOf } from "./chain.ts"
import { killChain, useKillAt } from "./killed.ts"

useKillAt()

for (const plugin of pluginsAs()) {
  const quick = pluginRow(plugin).like === undefined ? 10 : 4
  testPlugin(
    plugin,
    `${plugin}: an ADD killed at any system call leaves nothing behind a DEL or GC of any kind`,
    () => killChain(`ADD of ${plugin} killed`, chainOf(plugin), [{ verb: "ADD", quick, rounds: 6 }]),
    { forEachKind: true, timeoutMs: extent(900_000, 7_200_000) },
  )
}
