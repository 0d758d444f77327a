package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/manifests"
)

// component is one of our programs that runs as a process here, and as pods in a real cluster.
type component struct {
	// name is that of its workload, service account and binary; namespace is where its manifests put it.
	name, namespace string
	// stateful is true if its workload is a StatefulSet, else it is a Deployment.
	stateful bool
	// folders are those of manifests.FS that it needs.
	folders []string
	// asksCRDs is true if it has an admission policy that reads objects of a CRD.
	asksCRDs bool
}

// installComponent applies the manifests of a component. Its workload is scaled to no replicas: a process replaces its pods, for which no image exists here.
func (s *Sandbox) installComponent(ctx context.Context, c component) error {
	for _, folder := range c.folders {
		if err := s.ApplyManifests(ctx, manifests.FS, folder); err != nil {
			return err
		}
	}
	client, err := s.newClient()
	if err != nil {
		return err
	}
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: c.namespace}}
	if c.stateful {
		_, err = client.AppsV1().StatefulSets(c.namespace).UpdateScale(ctx, c.name, scale, metav1.UpdateOptions{})
	} else {
		_, err = client.AppsV1().Deployments(c.namespace).UpdateScale(ctx, c.name, scale, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("scaling the workload of %s to 0: %w", c.name, err)
	}
	if c.asksCRDs {
		return awaitAdmission(ctx, client)
	}
	return nil
}

// policiesHold is how long the API server may take to enforce a new policy: it looks for changes once a second (policyRefreshInterval of
// k8s.io/apiserver), and then compiles, which other work may delay.
const policiesHold = 3 * time.Second

// awaitAdmission waits until the API server admits pods with all new policies in effect. It rejects each pod until it has read the objects that a new
// policy refers to, which takes longest for those of a CRD.
func awaitAdmission(ctx context.Context, client kubernetes.Interface) error {
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "admission-", Namespace: metav1.NamespaceDefault},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe"}}},
	}
	from := time.Now()
	var refused error
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, refused = client.CoreV1().Pods(probe.Namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if refused != nil {
			from = time.Now()
		}
		return time.Since(from) > policiesHold, nil
	}); err != nil {
		return fmt.Errorf("waiting for pods to be admitted: %w", errors.Join(err, refused))
	}
	return nil
}

// preparedComponent is what every component is started with: its program, and a kubeconfig of its service account.
type preparedComponent struct{ binary, kubeconfig string }

// prepareComponent finds a component's program, which is built beside the tools unless binary names another, and makes a kubeconfig
// of the service account that install has created.
func (s *Sandbox) prepareComponent(ctx context.Context, c component, binary string) (preparedComponent, error) {
	if binary == "" {
		binary = filepath.Join(filepath.Dir(s.options.BinDir), c.name)
	}
	if _, err := os.Stat(binary); err != nil {
		return preparedComponent{}, fmt.Errorf("finding %s (run \"make build\" in the repository): %w", c.name, err)
	}
	kubeconfig, err := s.ServiceAccountKubeconfig(ctx, c.namespace, c.name)
	return preparedComponent{binary: binary, kubeconfig: kubeconfig}, err
}

// portOr returns a port, or a free one for 0.
func portOr(port int) (int, error) {
	if port != 0 {
		return port, nil
	}
	return FreePort("127.0.0.1")
}
