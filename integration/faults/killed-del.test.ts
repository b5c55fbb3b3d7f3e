import { extent, pluginRow, pluginsAs, testPlugin } from "../lab/mod.ts"
import { chainOf } from "./chain.ts"
import { killChain, useKillAt } from "./killed.ts"

useKillAt()

for (const plugin of pluginsAs()) {
  const like = pluginRow(plugin).like !== undefined
  testPlugin(
    plugin,
    `${plugin}: a DEL or GC killed at any system call is finished by the next, a CHECK or STATUS changes nothing`,
    () =>
      killChain(`DEL, GC, CHECK and STATUS of ${plugin} killed`, chainOf(plugin), [
        { verb: "DEL", quick: like ? 2 : 5, rounds: 2 },
        { verb: "GC", quick: like ? 1 : 3, rounds: 2 },
        { verb: "CHECK", quick: like ? 0 : 1, rounds: 2 },
        { verb: "STATUS", quick: like ? 0 : 1, rounds: 2 },
      ]),
    { forEachKind: true, timeoutMs: extent(900_000, 7_200_000) },
  )
}
