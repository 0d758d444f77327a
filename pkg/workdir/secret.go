package workdir

import (
	"path"
	"strings"
)

// secrets are the names of what holds passwords, tokens and private keys, as lines of a .gitignore in lower case. Who may read the
// ConfigMaps of a namespace would read them.
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

// secret says whether a path, which is below the root of the repository, has the name of what nobody means to send, and no line of a
// .gitignore or .dockerignore names it with a ! to have it sent. A line such as !src/** names no file.
func (w *walker) secret(file, at string, isDir bool) bool {
	if !ignored(secrets, strings.ToLower(file), isDir) {
		return false
	}
	for _, r := range w.rules {
		if r.keep && r.names() && r.matches(file, isDir) {
			return false
		}
	}
	for _, r := range w.dockerKeeps {
		if r.names() && r.matches(at, isDir) {
			return false
		}
	}
	return true
}

// names says whether a line is of some names and not of all there are.
func (r rule) names() bool { return strings.Trim(path.Base(r.glob), "*") != "" }

// dockerKeeps are the lines of a .dockerignore that have something sent all the same, of which each is a path from its folder.
func dockerKeeps(patterns []string) []rule {
	var out []rule
	for _, pattern := range patterns {
		if kept, ok := strings.CutPrefix(pattern, "!"); ok {
			out = append(out, parseIgnore("", []byte("/"+strings.TrimPrefix(kept, "/")))...)
		}
	}
	return out
}
