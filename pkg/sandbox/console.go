package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// ConsoleAccount is the ServiceAccount in the namespace default that signs in to the console of a sandbox. It may do everything that the API offers.
const ConsoleAccount = "console"

// consoleAccount is what makes it so. A sandbox is its user's own: on a cluster, people have accounts and rights of their own.
const consoleAccount = `apiVersion: v1
kind: ServiceAccount
metadata: {name: console, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: gpuctl-server-callers, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "g8s:gpuctl-server-callers"}
subjects: [{kind: ServiceAccount, name: gpuctl-server, namespace: gpuctl-server}]
`

// consoleRoles are the roles of manifests/server that the account has in the whole cluster.
var consoleRoles = []string{"reader", "user", "fleet-reader", "admin"}

const consoleBinding = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: console-%[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "g8s:%[1]s"}
subjects: [{kind: ServiceAccount, name: console, namespace: default}]
`

// CreateConsoleAccount makes the account that signs in to the console.
func (s *Sandbox) CreateConsoleAccount(ctx context.Context) error {
	text := consoleAccount
	for _, role := range consoleRoles {
		text += fmt.Sprintf(consoleBinding, role)
	}
	file := filepath.Join(s.dir, "console-account.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing the console's account: %w", err)
	}
	if _, err := s.RunKubectl(ctx, "apply", "--server-side", "-f", file); err != nil {
		return fmt.Errorf("making the console's account: %w", err)
	}
	return nil
}
