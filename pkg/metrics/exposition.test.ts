import { expect, test } from "bun:test"
import { printFamilies } from "./exposition.ts"

test("a metric has its meaning, its type and its samples; one without samples is left out", () => {
  const families = [
    { name: "a_total", type: "counter", help: "Calls.", samples: [{ labels: {}, value: 3 }] },
    { name: "b", type: "gauge", help: "None.", samples: [] },
    {
      name: "c",
      type: "histogram",
      help: "Seconds.",
      samples: [{ suffix: "_bucket", labels: { le: "+Inf", path: 'a"b\\c\nd' }, value: "18446744073709551616" }],
    },
  ] as const
  expect(printFamilies(families)).toBe(
    [
      "# HELP a_total Calls.\n# TYPE a_total counter\na_total 3\n",
      '# HELP c Seconds.\n# TYPE c histogram\nc_bucket{le="+Inf",path="a\\"b\\\\c\\nd"} 18446744073709551616\n',
    ].join(""),
  )
})
