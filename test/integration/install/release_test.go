package install

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"g8s.host/gpu-scheduler/pkg/doctor"
	"g8s.host/gpu-scheduler/test/bounds"
)

// patience is how long what the controllers do may take.
const patience = bounds.Patience

// TestInstallUpgradeUninstall does with Helm what an administrator does, with everything on.
func TestInstallUpgradeUninstall(t *testing.T) {
	before := ours(t.Context(), t)
	if len(before) > 0 {
		t.Fatalf("the cluster is not empty: %v", before)
	}
	expect(t, client, whatTheClusterHas)
	expect(t, client, map[string]doctor.Status{"CRDs": doctor.Warning, "policies": doctor.Warning, "gpu-scheduler": doctor.Warning})
	values := []string{"--namespace", metav1.NamespaceSystem}
	for _, value := range append([]string{"server.tls.create=true", "ledger.tls.create=true"}, everything...) {
		values = append(values, "--set", value)
	}
	run(t, append([]string{"install", "g8s", chart}, values...)...)
	have := ours(t.Context(), t)
	for key := range template(t, append(everything, "server.tls.create=true", "ledger.tls.create=true")...) {
		if !slices.Contains(have, key) {
			t.Errorf("%s is not installed", key)
		}
	}

	expect(t, client, whatTheClusterHas)
	// There are no nodes, so no pod is ready.
	expect(t, client, map[string]doctor.Status{"CRDs": doctor.OK, "policies": doctor.OK, "gpu-scheduler": doctor.Failed, "gpu-agent": doctor.Warning})

	certificate := secret(t, "gpu-ledger-tls")
	administer(t)
	run(t, append([]string{"upgrade", "g8s", chart, "--set", "scheduler.replicas=3"}, values...)...)
	if got := secret(t, "gpu-ledger-tls"); !cmp.Equal(certificate, got) {
		t.Error("an upgrade made another certificate")
	}
	deployment, err := client.AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), "gpu-scheduler", metav1.GetOptions{})
	if err != nil || *deployment.Spec.Replicas != 3 {
		t.Errorf("after the upgrade: %v, %v", deployment.Spec.Replicas, err)
	}
	if got := administered(t); got != "research" {
		t.Errorf("an upgrade made %q of what an administrator wrote", got)
	}

	cloud := makeSpotPool(t)
	_, err = helm(t, append(append([]string{"upgrade", "g8s", chart}, values...), "--set", "spot.enabled=false")...)
	if err == nil || !strings.Contains(err.Error(), "there are 1 SpotPools") {
		t.Errorf("an upgrade that leaves machines alone: got error %v", err)
	}
	run(t, "uninstall", "g8s", "--namespace", metav1.NamespaceSystem)
	if _, err := client.CoreV1().Secrets("g8s-spot").Get(t.Context(), cloud, metav1.GetOptions{}); err != nil {
		t.Errorf("the account of a cloud did not stay: %v", err)
	}
	expect(t, client, map[string]doctor.Status{"SpotPools": doctor.Failed})
	if _, err := cluster.RunKubectl(t.Context(), "delete", "spotpools", "--all"); err != nil {
		t.Fatal(err)
	}
	kept := []string{
		"ConfigMap kube-system/gpuctl-policy",
		"ConfigMap kube-system/gpuctl-presets",
		"CustomResourceDefinition /gpupools.g8s.host",
		"CustomResourceDefinition /gpuquotas.g8s.host",
		"CustomResourceDefinition /gpureservations.g8s.host",
		"CustomResourceDefinition /podgroups.scheduling.x-k8s.io",
		"CustomResourceDefinition /spotpools.g8s.host",
		"Namespace /g8s-spot",
		volume,
	}
	becomes(t.Context(), t, kept)

	// The same release is installed again over what is left.
	run(t, append([]string{"install", "g8s", chart}, values...)...)
	if got := administered(t); got != "research" {
		t.Errorf("another installation made %q of what an administrator wrote", got)
	}
	run(t, "uninstall", "g8s", "--namespace", metav1.NamespaceSystem)
	becomes(t.Context(), t, kept)
	removeLeftovers(t.Context(), t)
}

// volume is the ledger's, which the controller of StatefulSets labels less.
const volume = "PersistentVolumeClaim kube-system/ledger-gpu-ledger-0"

// leftovers are the commands of docs/install.md that remove what an uninstall leaves.
var leftovers = []string{
	"-n kube-system delete configmap gpuctl-policy gpuctl-presets",
	"-n kube-system delete pvc ledger-gpu-ledger-0",
	"delete namespace g8s-spot",
	"delete crd gpupools.g8s.host gpuquotas.g8s.host gpureservations.g8s.host spotpools.g8s.host podgroups.scheduling.x-k8s.io",
}

// removeLeftovers does so, and waits until nothing is left. Policies that were just deleted may refuse it for a moment.
func removeLeftovers(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, command := range leftovers {
		err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
			_, err := cluster.RunKubectl(ctx, strings.Fields(command+" --ignore-not-found")...)
			return err == nil, nil
		})
		if err != nil {
			t.Errorf("kubectl %s: %v", command, err)
		}
	}
	becomes(ctx, t, nil)
}

// TestTheDocumentedCommandsAreThese that the tests here run.
func TestTheDocumentedCommandsAreThese(t *testing.T) {
	page, err := os.ReadFile("../../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range append(leftovers, removal...) {
		if !strings.Contains(string(page), "    kubectl "+command) {
			t.Errorf("docs/install.md does not have: kubectl %s", command)
		}
	}
}

// removal are the commands of docs/install.md that remove what kubectl installed.
var removal = []string{
	"delete validatingadmissionpolicybinding,validatingadmissionpolicy -l app.kubernetes.io/part-of=g8s",
	"delete --ignore-not-found -k manifests/agent",
	"delete --ignore-not-found -k manifests/controller",
	"delete --ignore-not-found -k manifests/scheduler",
}

// TestKubectlInstallsAndRemoves does by kustomizations what TestInstallUpgradeUninstall does by the chart.
func TestKubectlInstallsAndRemoves(t *testing.T) {
	if err := cluster.ApplyManifests(t.Context(), os.DirFS(manifestsDir), "install"); err != nil {
		t.Fatal(err)
	}
	have := ours(t.Context(), t)
	for key := range kustomize(t, "install") {
		if !slices.Contains(have, key) {
			t.Errorf("%s is not installed", key)
		}
	}
	removeByKubectl(t.Context(), t)
}

// removeByKubectl removes what kubectl installed by the commands of docs/install.md, and waits until nothing is left.
func removeByKubectl(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, command := range removal {
		var last error
		err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
			_, last = cluster.RunKubectl(ctx, strings.Fields(strings.ReplaceAll(command, "-k manifests", "-k "+manifestsDir))...)
			return last == nil, nil
		})
		if err != nil {
			t.Errorf("kubectl %s: %v: %v", command, err, last)
		}
	}
	becomes(ctx, t, nil)
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if _, err := helm(t, args...); err != nil {
		t.Fatal(err)
	}
}

// makeSpotPool makes one, and a Secret as that of the account of its cloud, whose name it returns.
func makeSpotPool(t *testing.T) string {
	t.Helper()
	if _, err := cluster.RunKubectl(t.Context(), "apply", "--server-side", "-f", "../../../examples/spot/simulated.yaml"); err != nil {
		t.Fatal(err)
	}
	account := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "account"}}
	if _, err := client.CoreV1().Secrets("g8s-spot").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return account.Name
}

// administer writes into the lists of the policies what an administrator might.
func administer(t *testing.T) {
	t.Helper()
	_, err := cluster.RunKubectl(t.Context(), "-n", "kube-system", "patch", "configmap", "gpuctl-policy", "--type=merge",
		`--patch={"data":{"pools.gold-pool":"research"}}`)
	if err != nil {
		t.Fatal(err)
	}
}

func administered(t *testing.T) string {
	t.Helper()
	lists, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "gpuctl-policy", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lists.Data["pools.gold-pool"]
}

func secret(t *testing.T, name string) map[string][]byte {
	t.Helper()
	found, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found.Data
}

// becomes waits until exactly these objects are in the cluster.
func becomes(ctx context.Context, t *testing.T, want []string) {
	t.Helper()
	var diff string
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
		found, err := installed(ctx)
		if err == nil {
			diff = cmp.Diff(want, found)
		}
		return err == nil && diff == "", nil
	})
	if err != nil {
		t.Fatalf("what is left (-want +got):\n%s", diff)
	}
}

// ours are the objects of every kind that are labelled ours. What others make of them is not: pods, endpoints, revisions.
func ours(ctx context.Context, t *testing.T) []string {
	t.Helper()
	found, err := installed(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func installed(ctx context.Context) ([]string, error) {
	kinds, err := cluster.RunKubectl(ctx, "api-resources", "--verbs=list", "-o", "name")
	if err != nil {
		return nil, err
	}
	var listed []string
	for kind := range strings.FieldsSeq(string(kinds)) {
		switch kind {
		case "pods", "endpoints", "endpointslices.discovery.k8s.io", "replicasets.apps", "controllerrevisions.apps", "events", "events.events.k8s.io", "componentstatuses":
		default:
			listed = append(listed, kind)
		}
	}
	out, err := cluster.RunKubectl(ctx, "get", strings.Join(listed, ","), "-A", "-l", "app.kubernetes.io/part-of=g8s", "--ignore-not-found",
		"-o", `go-template={{range .items}}{{.kind}} {{with .metadata.namespace}}{{.}}{{end}}/{{.metadata.name}}{{"\n"}}{{end}}`)
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		found = append(found, strings.TrimSpace(line))
	}
	_, err = client.CoreV1().PersistentVolumeClaims(metav1.NamespaceSystem).Get(ctx, "ledger-gpu-ledger-0", metav1.GetOptions{})
	if err == nil {
		found = append(found, volume)
	} else if !apierrors.IsNotFound(err) {
		return nil, err
	}
	slices.Sort(found)
	return found, nil
}

// TestHelmTakesOverWhatKubectlInstalled, as docs/install.md says, and without its word refuses to.
func TestHelmTakesOverWhatKubectlInstalled(t *testing.T) {
	if err := cluster.ApplyManifests(t.Context(), os.DirFS(manifestsDir), "install"); err != nil {
		t.Fatal(err)
	}
	deployments := client.AppsV1().Deployments(metav1.NamespaceSystem)
	before, err := deployments.Get(t.Context(), "gpu-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := helm(t, "install", "g8s", chart, "--namespace", metav1.NamespaceSystem); err == nil || !strings.Contains(err.Error(), "ownership") {
		t.Errorf("without --take-ownership: got error %v", err)
	}
	run(t, "install", "g8s", chart, "--namespace", metav1.NamespaceSystem, "--take-ownership")
	after, err := deployments.Get(t.Context(), "gpu-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Spec.Template, after.Spec.Template); diff != "" || before.UID != after.UID {
		t.Errorf("the scheduler's pods are replaced (-before +after):\n%s", diff)
	}
	run(t, "uninstall", "g8s", "--namespace", metav1.NamespaceSystem)
	removeLeftovers(t.Context(), t)
}
