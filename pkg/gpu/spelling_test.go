package gpu

import "testing"

func TestSameModel(t *testing.T) {
	tests := map[string]struct {
		a, b string
		want bool
	}{
		"a letter makes another model":                  {a: "nvidia-tesla-a100", b: "nvidia-tesla-v100"},
		"a digit makes another model":                   {a: "A10", b: "A40"},
		"a letter more makes another model":             {a: "L40", b: "L40S"},
		"case does not":                                 {a: "A100-80G", b: "a100-80g", want: true},
		"the memory does not":                           {a: "A100-800G", b: "A100-100G", want: true},
		"nor how its unit is written":                   {a: "A100-80GB", b: "A100-80G", want: true},
		"nor a word around it":                          {a: "nvida-tesla-a100", b: "nvidia-tesla-a100", want: true},
		"a name that leaves the memory out":             {a: "A100", b: "A100-80G", want: true},
		"a name that leaves a part of the model out":    {a: "A100", b: "A100-SXM4-80GB", want: true},
		"numbers alone are a model":                     {a: "RTX-4090", b: "RTX-4080"},
		"names without digits are no models to compare": {a: "Titan", b: "Titam", want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if SameModel(tc.a, tc.b) != tc.want || SameModel(tc.b, tc.a) != tc.want {
				t.Errorf("%s and %s are of one model: %t, want %t", tc.a, tc.b, !tc.want, tc.want)
			}
		})
	}
}

func TestNamesModelOf(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b string
		want bool
	}{
		"the model alone":              {"T4", "Tesla-T4", true},
		"more words than the node has": {"NVIDIA-Tesla-T4", "t4", true},
		"a100 of many words":           {"A100", "NVIDIA-A100-SXM4-80GB", true},
		"another model":                {"T4", "NVIDIA-L4", false},
		"a word that is in neither":    {"A100-PCIE", "NVIDIA-A100-SXM4-80GB", false},
		"no model at all":              {"Tesla", "Tesla-T4", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NamesModelOf(tc.a, tc.b); got != tc.want {
				t.Errorf("%s, %s: %t", tc.a, tc.b, got)
			}
		})
	}
}
