import type { Environment } from "../invoke/mod.ts"
import { CniError, Code, validateContainerId, validateInterfaceName } from "../types/mod.ts"
import type { Verb } from "./plugin.ts"

type Variable = "CNI_CONTAINERID" | "CNI_NETNS" | "CNI_IFNAME" | "CNI_PATH"

/** The variables without which a verb is refused. DEL alone does without a namespace: it may be gone. */
const required: Readonly<Record<Verb, readonly Variable[]>> = {
  ADD: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  DEL: ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
  CHECK: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  GC: ["CNI_PATH"],
  STATUS: ["CNI_PATH"],
  VERSION: [],
}

export function isVerb(command: string): command is Verb {
  return Object.hasOwn(required, command)
}

export const verbs = Object.keys(required)

/** The parameters of a call, CNI 1.1.0 "Parameters"; "" for those that the verb does not carry. */
export interface Variables {
  containerId: string
  netns: string
  ifName: string
  args: string
  path: string
}

/**
 * Reads the `CNI_*` variables of a command. Throws code 4 for the first one that has a value it must not have, else, for
 * all that are missing, one error. An unknown command has no required variables.
 */
export function readVariables(command: string, env: Environment): Variables {
  const needed = isVerb(command) ? required[command] : []
  const missing: string[] = []
  for (const name of needed) {
    const value = env[name] ?? ""
    if (value === "") missing.push(name)
    else if (name === "CNI_CONTAINERID") validateContainerId(value)
    else if (name === "CNI_IFNAME") validateInterfaceName(value)
  }
  if (missing.length > 0) {
    throw new CniError(Code.InvalidEnvironment, `required env variables [${missing.join(",")}] missing`, {
      details: `${command} needs ${needed.join(", ")}, which the container runtime sets`,
    })
  }
  const isAttachment = command === "ADD" || command === "DEL" || command === "CHECK"
  const ofAttachment = (name: string) => (isAttachment ? (env[name] ?? "") : "")
  return {
    containerId: ofAttachment("CNI_CONTAINERID"),
    netns: ofAttachment("CNI_NETNS"),
    ifName: ofAttachment("CNI_IFNAME"),
    args: env.CNI_ARGS ?? "",
    path: env.CNI_PATH ?? "",
  }
}
