package workdir

import (
	"path"
	"strings"
)

// secrets are the names of files with passwords, tokens and private keys, as lower-case .gitignore lines. Anyone who may read the namespace's
// ConfigMaps could read these files.
var secrets = parseIgnore("", []byte(`
.env
.env.*
.env~
.envrc
!.env.example
!.env.sample
!.env.template
!.env.dist
*.pem
*.key
*.p12
*.pfx
*.jks
*.keystore
*.kdbx
*.ppk
id_rsa
id_rsa.*
id_dsa
id_dsa.*
id_ecdsa
id_ecdsa.*
id_ecdsa_sk
id_ed25519
id_ed25519.*
id_ed25519_sk
!*.pub
.ssh/
.gnupg/
.netrc
_netrc
.git-credentials
.pgpass
.my.cnf
.npmrc
.pypirc
.dockercfg
**/.docker/config.json
kubeconfig
kubeconfig.*
*.kubeconfig
**/.kube/config
**/.aws/credentials
**/.aws/config
**/.azure/*.json
application_default_credentials.json
**/gcloud/credentials.db
**/huggingface/token
**/.huggingface/token
.vault-token
`))

// isSecret reports whether a path below the repository root has the name of a secret file, and no line of a .gitignore or .dockerignore includes it
// by name with a !. A line such as !src/** names no file.
func (w *walker) isSecret(file, at string, isDir bool) bool {
	if !isIgnored(secrets, strings.ToLower(file), isDir) {
		return false
	}
	for _, r := range w.rules {
		if r.keep && r.isSpecific() && r.matchesPath(file, isDir) {
			return false
		}
	}
	for _, r := range w.dockerKeeps {
		if r.isSpecific() && r.matchesPath(at, isDir) {
			return false
		}
	}
	return true
}

// isSpecific reports whether a line matches specific names instead of everything.
func (r rule) isSpecific() bool { return strings.Trim(path.Base(r.glob), "*") != "" }

// dockerKeeps returns the lines of a .dockerignore that include files again, as paths relative to its folder.
func dockerKeeps(patterns []string) []rule {
	var out []rule
	for _, pattern := range patterns {
		if kept, ok := strings.CutPrefix(pattern, "!"); ok {
			out = append(out, parseIgnore("", []byte("/"+strings.TrimPrefix(kept, "/")))...)
		}
	}
	return out
}
