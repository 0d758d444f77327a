package cli

import "testing"

func TestAPoolThatWasPerhapsToBeAnother(t *testing.T) {
	known := []string{"training-pool", "inference-pool", "rack-1", "default"}
	tests := map[string]struct{ name, want string }{
		"a letter is missing":       {"training-pol", "training-pool"},
		"cut short":                 {"train-pool", "training-pool"},
		"the next of several":       {"rack-2", ""},
		"one of many":               {"rack-12", ""},
		"nothing like it":           {"gold", ""},
		"in another way of writing": {"Training-Pool", "training-pool"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := suggestPool(tc.name, known); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
