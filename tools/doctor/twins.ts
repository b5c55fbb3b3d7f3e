import { affectedBy, type Check, type Finding, nameOf } from "./finding.ts"
import { sh } from "./remedy.ts"

/** Finds host links whose alias names an attachment, although the attachment has another host end. */
export const checkTwins: Check = ({ attachments }) =>
  attachments.flatMap((one): Finding[] =>
    (one.twins ?? []).map(({ name }) => ({
      rule: "link-twice",
      severity: "warning",
      network: one.network,
      cause: `ends of network ${one.network}`,
      affected: [affectedBy(one)],
      what: `"${name}" is recorded as the host's end of ${nameOf(one)}, but "${one.link?.name}" is the host's end`,
      ofMany: (count) => `${count} containers have two ends on the host`,
      why: "one of them is left over from an ADD that was not undone, or from a container with the same ID: it keeps its port of the bridge, and the container's DEL deletes both",
      remedy: sh`ip link delete ${name}`,
      note: `first make sure that no container uses it: bridge link show dev ${name}; ip -d link show ${name}`,
    })),
  )
