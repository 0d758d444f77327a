package gangs

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestTheCRDRefusesWhatCannotBeRead, and says what to write instead.
func TestTheCRDRefusesWhatCannotBeRead(t *testing.T) {
	amounts := func(value any) map[string]any {
		return map[string]any{"minMember": int64(1), "minResources": map[string]any{"cpu": value}}
	}
	many := map[string]any{}
	for _, name := range strings.Split("a b c d e f g h i j k l m n o p q", " ") {
		many[name] = "1"
	}
	const anAmount = "500m, 8, 64Gi or 1e3"
	tests := map[string]struct {
		spec map[string]any
		// refusal is a part of what the API server says, "" if it takes it.
		refusal string
	}{
		"the largest gang":                 {map[string]any{"minMember": int64(10_000)}, ""},
		"one more":                         {map[string]any{"minMember": int64(10_001)}, "less than or equal to 10000"},
		"a million":                        {map[string]any{"minMember": int64(1_000_000)}, "less than or equal to 10000"},
		"more than fit in 32 bits":         {map[string]any{"minMember": int64(3_000_000_000)}, "less than or equal to 10000"},
		"none":                             {map[string]any{"minMember": int64(0)}, "greater than or equal to 1"},
		"less than none":                   {map[string]any{"minMember": int64(-1)}, "greater than or equal to 1"},
		"nothing":                          {map[string]any{}, ""},
		"the longest timeout":              {map[string]any{"scheduleTimeoutSeconds": int64(900)}, ""},
		"a longer one, of an operator":     {map[string]any{"scheduleTimeoutSeconds": int64(3600)}, ""},
		"one that does not fit in 32 bits": {map[string]any{"scheduleTimeoutSeconds": int64(3_000_000_000)}, "less than or equal to 2147483647"},
		"one in the past":                  {map[string]any{"scheduleTimeoutSeconds": int64(-1)}, "greater than or equal to 0"},
		"half a core":                      {amounts("500m"), ""},
		"eight cores":                      {amounts(int64(8)), ""},
		"a thousand, as an exponent":       {amounts("1e3"), ""},
		"a fraction of an exponent":        {amounts("1e1.5"), anAmount},
		"an exponent without end":          {amounts("1e999999999"), anAmount},
		"one of three digits":              {amounts("1e100"), anAmount},
		"a negative amount":                {amounts("-1"), anAmount},
		"a negative number":                {amounts(int64(-1)), anAmount},
		"a long amount":                    {amounts(strings.Repeat("1", 33)), "32"},
		"more resources than are added up": {map[string]any{"minResources": many}, "16"},
		"a name of a thousand characters":  {map[string]any{"minResources": map[string]any{strings.Repeat("x", 1000): "1"}}, "at most 316 characters"},
	}
	e := newEnv(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := e.group("g-"+strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", ""), tc.spec)
			if tc.refusal == "" && err != nil || tc.refusal != "" && (err == nil || !strings.Contains(err.Error(), tc.refusal)) {
				t.Errorf("the API server says %v, want %q", err, tc.refusal)
			}
		})
	}
}

// TestTheStatusHasBounds, which users may be let edit.
func TestTheStatusHasBounds(t *testing.T) {
	e := newEnv(t)
	e.must(e.group("g", map[string]any{"minMember": int64(1)}))
	tests := map[string]struct {
		patch   string
		refused bool
	}{
		"what a controller writes":       {`{"status":{"phase":"Running","running":3,"occupiedBy":"team/job"}}`, false},
		"long names of owners":           {`{"status":{"occupiedBy":"` + strings.Repeat("x", 63) + "/" + strings.Repeat("x", 253) + `"}}`, false},
		"more than fit in 32 bits":       {`{"status":{"running":3000000000}}`, true},
		"less than none":                 {`{"status":{"failed":-1}}`, true},
		"a megabyte of phase":            {`{"status":{"phase":"` + strings.Repeat("x", 1<<20) + `"}}`, true},
		"a megabyte of owner":            {`{"status":{"occupiedBy":"` + strings.Repeat("x", 1<<20) + `"}}`, true},
		"a time that is none":            {`{"status":{"scheduleStartTime":"now"}}`, true},
		"a field that there is not":      {`{"status":{"junk":"` + strings.Repeat("x", 1<<20) + `"}}`, false},
		"a success beyond all 32 bits":   {`{"status":{"succeeded":99999999999}}`, true},
		"a text where a number is meant": {`{"status":{"succeeded":"1"}}`, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := untyped.Resource(podGroups).Namespace(e.namespace).Patch(t.Context(), "g", types.MergePatchType, []byte(tc.patch), metav1.PatchOptions{}, "status")
			if (err != nil) != tc.refused {
				t.Errorf("the API server says %.200v, want it to refuse: %t", err, tc.refused)
			}
		})
	}
	stored, err := untyped.Resource(podGroups).Namespace(e.namespace).Get(t.Context(), "g", metav1.GetOptions{})
	e.must(err)
	if _, kept, _ := unstructured.NestedString(stored.Object, "status", "junk"); kept {
		t.Error("a field that there is not was stored")
	}
}
