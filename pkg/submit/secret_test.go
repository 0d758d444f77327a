package submit

import "testing"

// TestRegistryOfASecret is the same each time it is listed, also for a login file that another tool wrote.
func TestRegistryOfASecret(t *testing.T) {
	for config, want := range map[string]string{
		`{"auths":{"quay.io":{},"ghcr.io":{},"nvcr.io":{},"docker.io":{}}}`: "docker.io",
		`{"auths":{"ghcr.io":{}}}`: "ghcr.io",
		`{"auths":{}}`:             "",
		`{"auths":[1]}`:            "",
		``:                         "",
	} {
		for range 20 {
			if got := registryOf([]byte(config)); got != want {
				t.Fatalf("%s is the login of %q, want %q", config, got, want)
			}
		}
	}
}
