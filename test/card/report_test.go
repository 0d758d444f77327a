package card

import (
	"strings"
	"testing"
	"time"
)

const sees = `{"did":"nodes","nodes":["/dev/nvidia0"]}
{"did":"see","code":0,"uuids":["GPU-a"],"totalMiB":143155}
{"did":"end"}
`

func TestWhatAContainerSees(t *testing.T) {
	for name, tc := range map[string]struct {
		log         string
		card, empty string
	}{
		"its card":              {log: sees, empty: "device nodes"},
		"another card":          {log: strings.ReplaceAll(sees, "GPU-a", "GPU-b"), card: "GPU-b", empty: "device nodes"},
		"two cards":             {log: strings.ReplaceAll(sees, `"GPU-a"`, `"GPU-a","GPU-b"`), card: "GPU-b", empty: "device nodes"},
		"a node too many":       {log: strings.ReplaceAll(sees, `"/dev/nvidia0"`, `"/dev/nvidia0","/dev/nvidia1"`), card: "device nodes", empty: "device nodes"},
		"a driver that refuses": {log: "{\"did\":\"nodes\"}\n{\"did\":\"see\",\"code\":100}\n{\"did\":\"end\"}\n", card: "code 100"},
		"no library":            {log: "{\"did\":\"nodes\"}\n{\"did\":\"load\",\"error\":\"none\"}\n{\"did\":\"end\"}\n", card: "none"},
		"nothing":               {log: "", card: "nothing", empty: "end"},
		"a card by the driver":  {log: `{"did":"see","code":0,"uuids":["GPU-a"]}` + "\n", card: "device nodes", empty: "GPU-a"},
	} {
		t.Run(name, func(t *testing.T) {
			said, err := steps(tc.log)
			if err != nil {
				t.Fatal(err)
			}
			for what, both := range map[string][2]string{"one card": {tc.card, seesOnly(said, []string{"GPU-a"}, []string{"/dev/nvidia0"})}, "none": {tc.empty, seesNone(said)}} {
				if want, got := both[0], both[1]; (want == "") != (got == "") || !strings.Contains(got, want) {
					t.Errorf("where it is to see %s, what is wrong is %q, want %q", what, got, want)
				}
			}
		})
	}
	if _, err := steps("Segmentation fault\n"); err == nil {
		t.Error("a line that is no JSON is no error")
	}
}

func TestMedian(t *testing.T) {
	if middle, longest := median([]time.Duration{5, 1, 9}); middle != 5 || longest != 9 {
		t.Errorf("median %d, longest %d", middle, longest)
	}
	if middle, longest := median(nil); middle != 0 || longest != 0 {
		t.Errorf("of none the median is %d, the longest %d", middle, longest)
	}
}
