import { sbr } from "../../meta/sbr/main.ts"
import { runPlugin } from "../../pkg/skel/mod.ts"

export const run = () => runPlugin(sbr)
