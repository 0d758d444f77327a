package pool

import (
	"strings"
	"testing"
)

func TestLabelKey(t *testing.T) {
	tests := map[string]struct {
		word string
		any  bool
		want string
		err  string
	}{
		"a name of ours": {word: "pool", want: "g8s.host/pool"},
		"a name of ours, any key being permitted":        {word: "rack", any: true, want: "g8s.host/rack"},
		"the first gpuctl's spelling":                    {word: "gpuType", want: "g8s.host/gpu-type"},
		"the first gpuctl's domain":                      {word: "runwhere.ai/gpu_type", want: "g8s.host/gpu-type"},
		"what the scheduler reads without a domain":      {word: "accelerator", want: "accelerator"},
		"the same, any key being permitted":              {word: "gpu-memory", any: true, want: "gpu-memory"},
		"another word is ours":                           {word: "team", want: "g8s.host/team"},
		"another word, any key being permitted":          {word: "team", any: true, want: "team"},
		"another domain":                                 {word: "example.com/a", want: "example.com/a", err: "is not one of g8s.host"},
		"another domain, any key being permitted":        {word: "example.com/a", any: true, want: "example.com/a"},
		"Kubernetes' own":                                {word: "kubernetes.io/os", any: true, want: "kubernetes.io/os", err: "Kubernetes' own"},
		"Kubernetes' own of a domain below":              {word: "node.kubernetes.io/x", any: true, want: "node.kubernetes.io/x", err: "Kubernetes' own"},
		"what only ends like Kubernetes' own":            {word: "notkubernetes.io/x", any: true, want: "notkubernetes.io/x"},
		"what Kubernetes takes for no key":               {word: "a b", any: true, want: "a b", err: `label key "a b"`},
		"no key at all":                                  {word: "", any: true, want: "", err: `label key ""`},
		"a domain with nothing behind it":                {word: "example.com/", any: true, want: "example.com/", err: "label key"},
		"a name of ours under another domain is foreign": {word: "example.com/pool", want: "example.com/pool", err: "is not one of"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			key := LabelKey(tc.word, tc.any)
			if key != tc.want {
				t.Errorf("the key is %q, want %q", key, tc.want)
			}
			err := CheckLabelKey(key, tc.any)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}
