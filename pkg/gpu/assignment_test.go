package gpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAssignmentIsReadBackAsItWasWritten(t *testing.T) {
	want := Assignment{
		"train":   {{UUID: "GPU-00", Index: 0}, {UUID: "GPU-01", Index: 1}},
		"sidecar": {{UUID: "GPU-02", Index: 2, MemoryMiB: 2048}},
	}
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const written = `{"version":1,"containers":{"sidecar":[{"uuid":"GPU-02","index":2,"memoryMiB":2048}],` +
		`"train":[{"uuid":"GPU-00","index":0},{"uuid":"GPU-01","index":1}]}}`
	if diff := cmp.Diff(written, text); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	got, err := ParseAssignment(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("assignment (-want +got):\n%s", diff)
	}
}

func TestParseAssignmentRefuses(t *testing.T) {
	full := make(Assignment)
	for i := range MaxContainers + 1 {
		full[fmt.Sprintf("c%d", i)] = []Device{{UUID: "a"}}
	}
	if _, err := full.Encode(); !errorHas(err, "33 containers, want 1 to 32") {
		t.Errorf("encoding too many containers: %v", err)
	}
	cases := map[string]struct{ text, wantErr string }{
		"no JSON":                      {`GPU-0`, "invalid character"},
		"empty":                        {``, "unexpected end"},
		"text behind":                  {`{"version":1,"containers":{"a":[{"uuid":"x","index":0}]}}{}`, "after top-level value"},
		"a later version":              {`{"version":2,"containers":{"a":[{"uuid":"x","index":0}]}}`, "version is 2, want 1"},
		"no container":                 {`{"version":1,"containers":{}}`, "0 containers, want 1 to 32"},
		"a container without a device": {`{"version":1,"containers":{"a":[]}}`, "container a: 0 devices, want 1 to 64"},
		"no container's name":          {`{"version":1,"containers":{"A b":[{"uuid":"x","index":0}]}}`, `"A b" is no container name`},
		"a container twice":            {`{"version":1,"containers":{"a":[{"uuid":"x","index":0}],"a":[{"uuid":"y","index":1}]}}`, "duplicate field"},
		"a device twice":               {`{"version":1,"containers":{"a":[{"uuid":"x","index":0},{"uuid":"x","index":1}]}}`, "device x is there twice"},
		"a field that we do not write": {`{"version":1,"containers":{"a":[{"uuid":"x","index":0,"cores":50}]}}`, `unknown field`},
		"a field in the wrong case":    {`{"version":1,"containers":{"a":[{"Uuid":"x","index":0}]}}`, `unknown field`},
		"a negative share":             {`{"version":1,"containers":{"a":[{"uuid":"x","index":0,"memoryMiB":-1}]}}`, "memoryMiB is -1"},
		"a share that overflows":       {`{"version":1,"containers":{"a":[{"uuid":"x","index":0,"memoryMiB":9223372036854775807}]}}`, "memoryMiB is 9223372036854775807"},
		"an index out of bounds":       {`{"version":1,"containers":{"a":[{"uuid":"x","index":256}]}}`, "index is 256, want 0 to 255"},
		"a UUID with a quote":          {`{"version":1,"containers":{"a":[{"uuid":"x\"","index":0}]}}`, "uuid is"},
		"too long":                     {strings.Repeat(" ", maxAssignmentSize+1), "want at most 262144"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := ParseAssignment(tc.text); !errorHas(err, tc.wantErr) || err == nil || got != nil {
				t.Errorf("got %v, error %v, want %q", got, err, tc.wantErr)
			}
		})
	}
}
