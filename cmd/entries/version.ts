import { exit } from "../../pkg/libc/mod.ts"
import { answer, versionReply } from "../../pkg/skel/mod.ts"

/** Answers VERSION for every plugin (CNI 1.1.0, "VERSION"): one line, and nothing is read for it. */
export const run = () => exit(answer(versionReply()))
