import { portmap } from "../../meta/portmap/main.ts"
import { runPlugin } from "../../pkg/skel/mod.ts"

export const run = () => runPlugin(portmap)
