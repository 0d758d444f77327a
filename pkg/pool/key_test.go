package pool

import (
	"strings"
	"testing"
)

func TestLabelKey(t *testing.T) {
	tests := map[string]struct {
		word string
		want string
		err  string
		slip string
	}{
		"a name of ours":                            {word: "pool", want: "g8s.host/pool"},
		"the first gpuctl's spelling":               {word: "gpuType", want: "g8s.host/gpu-type"},
		"the first gpuctl's domain":                 {word: "runwhere.ai/gpu_type", want: "g8s.host/gpu-type"},
		"another key of that domain":                {word: "runwhere.ai/team", want: "runwhere.ai/team"},
		"what the scheduler reads without a domain": {word: "accelerator", want: "accelerator"},
		"a word that is nearly that":                {word: "acelerator", want: "acelerator", slip: "accelerator"},
		"a word that is nearly ours":                {word: "pooll", want: "pooll", slip: "g8s.host/pool"},
		"another word":                              {word: "team", want: "team"},
		"another domain":                            {word: "example.com/a", want: "example.com/a"},
		"a name of ours under another domain":       {word: "example.com/pool", want: "example.com/pool"},
		"a domain that is nearly ours":              {word: "g8s.hots/pool", want: "g8s.hots/pool", slip: "g8s.host/pool"},
		"a name that is nearly one of ours":         {word: "g8s.host/gpu-typ", want: "g8s.host/gpu-typ", slip: "g8s.host/gpu-type"},
		"another name of our domain":                {word: "g8s.host/team", want: "g8s.host/team"},
		"Kubernetes' own":                           {word: "kubernetes.io/os", want: "kubernetes.io/os", err: "Kubernetes' own"},
		"Kubernetes' own of a domain below":         {word: "node.kubernetes.io/x", want: "node.kubernetes.io/x", err: "Kubernetes' own"},
		"what only ends like Kubernetes' own":       {word: "notkubernetes.io/x", want: "notkubernetes.io/x"},
		"what Kubernetes takes for no key":          {word: "a b", want: "a b", err: `label key "a b"`},
		"no key at all":                             {word: "", want: "", err: `label key ""`},
		"a domain with nothing behind it":           {word: "example.com/", want: "example.com/", err: "label key"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			key := LabelKey(tc.word)
			if key != tc.want {
				t.Errorf("the key is %q, want %q", key, tc.want)
			}
			err := CheckLabelKey(key)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			slip := CheckMisspelledKey(key)
			if tc.slip == "" && slip != nil || tc.slip != "" && (slip == nil || !strings.Contains(slip.Error(), tc.slip)) {
				t.Errorf("slip %v, want %q", slip, tc.slip)
			}
		})
	}
}
