import { runPlugin } from "../../pkg/skel/mod.ts"
import { loopback } from "../../plugins/loopback/main.ts"

export const run = () => runPlugin(loopback)
