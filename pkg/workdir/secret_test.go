package workdir

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// TestWhatMayBeSecretStaysAtHome: nobody means to send a password with their code, and whoever reads ConfigMaps of the namespace would
// read it.
func TestWhatMayBeSecretStaysAtHome(t *testing.T) {
	secret := []string{
		".env", ".env.local", ".env.production", "web/.env", ".ENV", ".envrc", ".env~", "id_rsa", "keys/id_ed25519", "ID_RSA.bak", "tls.pem", "certs/server.key",
		"store.p12", "store.jks", "home/.ssh/config", ".gnupg/x", ".netrc", "_netrc", ".git-credentials", ".npmrc", ".pypirc", ".pgpass",
		".dockercfg", "home/.docker/config.json", "kubeconfig", "prod.kubeconfig", "home/.kube/config", ".aws/credentials", "home/.aws/config",
		"application_default_credentials.json", ".cache/huggingface/token",
	}
	sent := []string{
		".env.example", ".env.sample", "id_rsa.pub", "environment.py", "env", "keys.py", "config.json", "docker/config.json", "token",
		"monkey.txt", "config", ".dockerignore.txt", "x.keyboard", "aws/credentials.py",
	}
	files := fstest.MapFS{}
	for _, name := range slices.Concat(secret, sent) {
		files[name] = text("x")
	}
	listing, err := List(Folder{Files: files}, limit)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range listing.Entries {
		if !entry.Mode.IsDir() {
			got = append(got, entry.Path)
		}
	}
	slices.Sort(sent)
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if len(listing.Secret) < len(secret)-2 || slices.Contains(listing.Secret, "home/.ssh/config") || !slices.Contains(listing.Secret, "home/.ssh") {
		t.Errorf("told: %v", listing.Secret)
	}
}

// TestWhatIsNamedIsSent: a line that names a file with a ! has it sent, and one that is of all files does not.
func TestWhatIsNamedIsSent(t *testing.T) {
	tests := map[string]struct {
		git, docker string
		steps       []string
		want        string
	}{
		"nothing":                            {want: "a.py"},
		"a .gitignore that names it":         {git: "!.env\n", want: ".env a.py src/.env"},
		"one that names the one":             {git: "!/.env\n", want: ".env a.py"},
		"one that leaves all out but a part": {git: "*.bin\n!src/**\n", want: "a.py"},
		"one that names it, then does not":   {git: "!.env\n.env\n", want: "a.py"},
		"a .dockerignore that names it":      {docker: "!.env\n", want: ".env a.py"},
		"one that names it below":            {docker: "!src/.env\n", want: "a.py src/.env"},
		"one that leaves all out but it":     {docker: "*\n!src/.env\n", want: "src/.env"},
		"a .dockerignore of all of a folder": {docker: "*\n!a.py\n!src/**\n", want: "a.py"},
		"one that names it anywhere":         {docker: "!**/.env\n", want: ".env a.py src/.env"},
		"a folder of a repository":           {git: "!.env\n", steps: []string{"jobs", "sft"}, want: ".env a.py src/.env"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{".env": text("x"), "src/.env": text("x"), "a.py": text("x")}
			folder := Folder{Files: files, Steps: tc.steps}
			if tc.docker != "" {
				files[dockerIgnore] = text(tc.docker)
			}
			if tc.steps != nil {
				folder.Above = []string{"", ""}
			}
			if tc.git != "" {
				files[gitIgnore] = text(tc.git)
			}
			listing, err := List(folder, limit)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, entry := range listing.Entries {
				if !entry.Mode.IsDir() && entry.Path != dockerIgnore && entry.Path != gitIgnore {
					got = append(got, entry.Path)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("sent (-want +got):\n%s\nleft out: %v", diff, listing.Secret)
			}
		})
	}
}

// TestAFolderOfSecretsIsNotSent, and it is said why.
func TestAFolderOfSecretsIsNotSent(t *testing.T) {
	_, err := List(Folder{Files: fstest.MapFS{".env": text("x")}}, limit)
	if err == nil || !strings.Contains(err.Error(), "such as .env") {
		t.Errorf("error %v", err)
	}
}
