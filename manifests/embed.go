// Package manifests holds the YAML that installs the project on a cluster, and carries it in the binaries that
// install it, so that the sandbox and the documentation apply the same files.
package manifests

import "embed"

// FS holds the kustomizations as they are in this folder, such as scheduler/kustomization.yaml.
//
//go:embed agent controller crds ledger monitoring samples policy scheduler server simulated-cloud spot tenancy
var FS embed.FS
