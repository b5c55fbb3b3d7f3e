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
        { verb: "DEL", quick: like ? 3 : 6 },
        { verb: "GC", quick: like ? 2 : 4 },
        { verb: "CHECK", quick: like ? 1 : 2 },
        { verb: "STATUS", quick: 1 },
      ]),
    extent(120_000, 7_200_000),
  )
}
