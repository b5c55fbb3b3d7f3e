import { expect, test } from "bun:test"
import { refusal } from "./refusal.ts"

const input = `*nat
:X - [0:0]
-A X -m foo -j ACCEPT
-A X -m mark --mark 0x1 -j MASQUERADE
COMMIT
`
const textOf = (stderr: string) => String(refusal("Cannot change table nat", "nat", stderr, input))

// What the programs of iptables 1.8.9 print.
test.each([
  [
    "iptables-nft without an extension",
    "# Warning: iptables-legacy tables present, use iptables-legacy to see them\niptables-restore v1.8.9 (nf_tables): Couldn't load match `foo':No such file or directory\n\nError occurred at line: 3\nTry `iptables-restore -h' or 'iptables-restore --help' for more information.\n",
    "Cannot change table nat: \"-A X -m foo -j ACCEPT\" was refused: Couldn't load match `foo':No such file or directory; the kernel has to have table nat, match foo, target ACCEPT",
  ],
  [
    "iptables-nft when the kernel refuses a rule",
    "iptables-restore v1.8.9 (nf_tables): \nline 4: RULE_APPEND failed (Invalid argument): rule in chain X\n",
    'Cannot change table nat: "-A X -m mark --mark 0x1 -j MASQUERADE" was refused: RULE_APPEND failed (Invalid argument): rule in chain X; the kernel has to have table nat, match mark, target MASQUERADE',
  ],
  [
    "iptables-legacy when the kernel refuses the table",
    "iptables-restore: line 5 failed\n",
    'Cannot change table nat: "COMMIT" was refused; the kernel has to have table nat, match foo, target ACCEPT, match mark, target MASQUERADE',
  ],
  [
    "iptables-legacy without the table",
    "iptables-legacy-restore v1.8.9 (legacy): iptables-restore: unable to initialize table 'nat'\n\nError occurred at line: 1\n",
    "Cannot change table nat: \"*nat\" was refused: iptables-restore: unable to initialize table 'nat'; the kernel has to have table nat",
  ],
  [
    "a program that says nothing",
    "",
    "Cannot change table nat; the kernel has to have table nat, match foo, target ACCEPT, match mark, target MASQUERADE",
  ],
])("the error of %s has the line and the reason", (_, stderr, text) => {
  expect(textOf(stderr)).toBe(text)
})
