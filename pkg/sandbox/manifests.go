package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// tokenSeconds is how long a token of ServiceAccountKubeconfig is valid: the week that envtest's certificates
// are, which bounds the life of a sandbox.
const tokenSeconds = 7 * 24 * 3600

// ApplyManifests applies a kustomization as `kubectl apply --server-side -k DIR` does. dir is its folder in
// fsys, which must hold all that it refers to. For a folder on disk, fsys is os.DirFS.
func (s *Sandbox) ApplyManifests(ctx context.Context, fsys fs.FS, dir string) (err error) {
	root, err := os.MkdirTemp(filepath.Join(s.dir, "tmp"), "manifests-")
	if err != nil {
		return fmt.Errorf("applying manifests %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	if err := os.CopyFS(root, fsys); err != nil {
		return fmt.Errorf("applying manifests %s: %w", dir, err)
	}
	out, err := s.RunKubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", filepath.Join(root, dir))
	if err != nil {
		return fmt.Errorf("applying manifests %s: %w", dir, err)
	}
	s.ReportProgress("applied manifests/%s: %d objects", dir, bytes.Count(out, []byte("\n")))
	return nil
}

// RunKubectl runs kubectl as the administrator and returns its standard output. An error includes its standard error.
func (s *Sandbox) RunKubectl(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.kubectlPath(), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "KUBECONFIG=" + s.Kubeconfig()}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running kubectl %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// ServiceAccountKubeconfig writes a kubeconfig with which a client is exactly the service account, which must
// exist, and returns its path. Its token is valid for a week.
func (s *Sandbox) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	return s.serviceAccountKubeconfig(ctx, namespace, name, namespace+"."+name, nil)
}

// NodeServiceAccountKubeconfig does the same with a token that names a node, as those of pods that run there do.
func (s *Sandbox) NodeServiceAccountKubeconfig(ctx context.Context, namespace, name string, node *corev1.Node) (string, error) {
	return s.serviceAccountKubeconfig(ctx, namespace, name, namespace+"."+name+"."+node.Name, &authenticationv1.BoundObjectReference{
		APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
	})
}

func (s *Sandbox) serviceAccountKubeconfig(
	ctx context.Context, namespace, name, fileName string, bound *authenticationv1.BoundObjectReference,
) (string, error) {
	client, err := s.newClient()
	if err != nil {
		return "", err
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds), BoundObjectRef: bound},
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of service account %s/%s: %w", namespace, name, err)
	}
	const key = "sandbox"
	config := clientcmdapi.NewConfig()
	config.Clusters[key] = &clientcmdapi.Cluster{Server: s.config.Host, CertificateAuthorityData: s.config.CAData}
	config.AuthInfos[key] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[key] = &clientcmdapi.Context{Cluster: key, AuthInfo: key, Namespace: namespace}
	config.CurrentContext = key
	path := filepath.Join(s.dir, "kubeconfigs", fileName)
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of service account %s/%s: %w", namespace, name, err)
	}
	return path, nil
}
