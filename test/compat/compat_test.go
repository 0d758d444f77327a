// Package compat runs the programs against an API server and controllers of another Kubernetes: those of -kubernetes, which
// make compat builds, and without it the sandbox's own. Each program has all that it reads, the policies are understood and
// enforced, and a job, a gang and a change of leader go as they go on the version that everything else is tested on.
package compat

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	clients "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/testutil"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/doctor"
	"g8s.host/gpu-scheduler/pkg/emulation"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
	"g8s.host/gpu-scheduler/test/fixture"
)

var kubernetes = flag.String("kubernetes", "", "The version of Kubernetes that hack/compat.sh has built, such as 1.34; the sandbox's own without it")

var cluster clustertest.Cluster

func TestMain(m *testing.M) {
	flag.Parse()
	cluster.Fleet = clustertest.Pools(4, 2)
	if *kubernetes != "" {
		cluster.Tools = filepath.Join("../../bin", "kubernetes-"+*kubernetes)
	}
	cluster.Prepare = func(ctx context.Context) error {
		if err := errors.Join(cluster.InstallController(ctx), cluster.InstallServer(ctx), cluster.InstallLedger(ctx)); err != nil {
			return err
		}
		_, controller := cluster.StartController(ctx, sandbox.ControllerOptions{})
		_, server := cluster.StartServer(ctx, sandbox.ServerOptions{})
		_, ledger := cluster.StartLedger(ctx, sandbox.LedgerOptions{})
		return errors.Join(controller, server, ledger)
	}
	cluster.Main(m)
}

// standbyName is the second scheduler's.
const standbyName = "gpu-scheduler-2"

// TestTheVersionIsTheOneAskedFor, so that the others say what they seem to.
func TestTheVersionIsTheOneAskedFor(t *testing.T) {
	found, err := cluster.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Kubernetes %s", found.GitVersion)
	if *kubernetes != "" && !strings.HasPrefix(found.GitVersion, "v"+*kubernetes+".") {
		t.Errorf("it is %s, want %s", found.GitVersion, *kubernetes)
	}
}

// TestTheDoctorIsContent with the APIs and the policies; the programs run outside of the cluster, so that no pod of theirs
// is there.
func TestTheDoctorIsContent(t *testing.T) {
	found, err := doctor.ReadInstallation(t.Context(), cluster.Client, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range doctor.ExamineInstallation(found) {
		if check.Status != doctor.OK && !strings.Contains(check.Text.String(), "scaled to no pods") && !strings.Contains(check.Text.String(), "on no node") {
			t.Errorf("%+v", check)
		}
	}
}

func TestAJobGetsItsCards(t *testing.T) {
	e := cluster.NewEnvWithPool(t)
	pod := e.Start(clustertest.Job{Name: "one", GPUs: 4})[0]
	if pod.Annotations[names.AnnotationGPUDevices] == "" || pod.Annotations[names.AnnotationEpoch] == "" {
		t.Errorf("its annotations are %v", pod.Annotations)
	}
	e.Submit(clustertest.Job{Name: "large", GPUs: 16})
	e.Eventually("the large job to be told why it waits", func(ctx context.Context) (bool, error) {
		list, err := cluster.Client.CoreV1().Pods(e.Namespace).List(ctx, metav1.ListOptions{LabelSelector: names.LabelJob + "=large"})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		for _, condition := range list.Items[0].Status.Conditions {
			if condition.Type == corev1.PodScheduled && strings.Contains(condition.Message, "fewer GPUs") {
				return true, nil
			}
		}
		return false, nil
	})
}

// offer has a node offer two devices of a class, which stands for an extended resource, too, unless that is "".
func offer(t *testing.T, class, node, resource string) {
	t.Helper()
	resources := cluster.Client.ResourceV1()
	spec := resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + class + `"`}}}}
	if resource != "" {
		spec.ExtendedResourceName = &resource
	}
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + class}, Spec: resourcev1.ResourceSliceSpec{
		Driver: class, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
	}}
	_, classErr := resources.DeviceClasses().Create(t.Context(), &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: spec}, metav1.CreateOptions{})
	_, sliceErr := resources.ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{})
	if err := errors.Join(classErr, sliceErr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = resources.ResourceSlices().Delete(context.Background(), slice.Name, metav1.DeleteOptions{})
		_ = resources.DeviceClasses().Delete(context.Background(), class, metav1.DeleteOptions{})
	})
}

// awaitBound waits until a pod is bound to a node, and returns it.
func awaitBound(e *clustertest.Env, name, node string) (bound *corev1.Pod) {
	e.Helper()
	e.Eventually("pod "+name+" to be bound to node "+node, func(ctx context.Context) (_ bool, err error) {
		bound, err = cluster.Client.CoreV1().Pods(e.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && bound.Spec.NodeName == node, err
	})
	return bound
}

// awaitDevices sees to it that there is one claim in the namespace, of so many devices for one pod.
func awaitDevices(e *clustertest.Env, devices int) {
	e.Helper()
	claims, err := cluster.Client.ResourceV1().ResourceClaims(e.Namespace).List(e.Context(), metav1.ListOptions{})
	if err != nil || len(claims.Items) != 1 {
		e.Fatalf("%d claims were made, want 1 (%v)", len(claims.Items), err)
	}
	if status := claims.Items[0].Status; status.Allocation == nil || len(status.Allocation.Devices.Results) != devices || len(status.ReservedFor) != 1 {
		e.Errorf("the claim has the status %+v, want %d devices for one pod", status, devices)
	}
}

// TestAClaimGetsItsDevices has a claim made of its template, given devices of the node that has them, and its pod bound there: newer
// API servers ask for rights of their own for that.
func TestAClaimGetsItsDevices(t *testing.T) {
	e := cluster.NewEnv(t)
	const driver = "gpu.example.com"
	node := cluster.Fleet.Groups[0].NamePrefix + "-01"
	offer(t, driver, node, "")
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "two"}, Spec: resourcev1.ResourceClaimTemplateSpec{
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Name: "gpus", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: driver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2}},
		}}},
	}}
	pod := fixture.Pod("claims").Obj()
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template.Name}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpus"}}
	_, templateErr := cluster.Client.ResourceV1().ResourceClaimTemplates(e.Namespace).Create(t.Context(), template, metav1.CreateOptions{})
	_, podErr := cluster.Client.CoreV1().Pods(e.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err := errors.Join(templateErr, podErr); err != nil {
		t.Fatal(err)
	}
	awaitBound(e, pod.Name, node)
	awaitDevices(e, 2)
}

// extendedSince is the version of Kubernetes since which DeviceClasses stand for extended resources without a feature gate.
var extendedSince = version.MajorMinor(1, 36)

// TestAnExtendedResourceIsAnsweredByDevices has a pod ask for a resource that no node offers, and a DeviceClass stand for it: the scheduler
// makes the claim itself.
func TestAnExtendedResourceIsAnsweredByDevices(t *testing.T) {
	if behaves := schedulerBehavesAs(t); behaves.LessThan(extendedSince) {
		t.Skipf("the scheduler behaves as Kubernetes %s, where that is an alpha feature", behaves)
	}
	e := cluster.NewEnv(t)
	const resource = "example.com/card"
	node := cluster.Fleet.Groups[0].NamePrefix + "-02"
	offer(t, "card.example.com", node, resource)
	pod := fixture.Pod("extended").Obj()
	amount := corev1.ResourceList{resource: apiresource.MustParse("2")}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amount, Limits: amount}
	if _, err := cluster.Client.CoreV1().Pods(e.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitBound(e, pod.Name, node)
	awaitDevices(e, 2)
}

// TestACardIsShared by as many pods as its memory takes.
func TestACardIsShared(t *testing.T) {
	e := cluster.NewEnv(t)
	node := fixture.Node("shared").Pool("shared").SharedGPUs(1, 100).Label(names.LabelMemory, "49Gi").Obj()
	if _, err := cluster.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cluster.Client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{})
	})
	for _, name := range []string{"first", "second"} {
		pod := fixture.Pod(name).SharedGPUs(1, "20Gi").Pool("shared").Obj()
		if _, err := cluster.Client.CoreV1().Pods(e.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	first, second := awaitBound(e, "first", node.Name), awaitBound(e, "second", node.Name)
	if devices := first.Annotations[names.AnnotationGPUDevices]; devices == "" || devices != second.Annotations[names.AnnotationGPUDevices] {
		t.Errorf("they have the cards %q and %q, want the same", devices, second.Annotations[names.AnnotationGPUDevices])
	}
}

// schedulerBehavesAs is the version of Kubernetes that the scheduler says that it behaves as.
func schedulerBehavesAs(t *testing.T) *version.Version {
	t.Helper()
	config := cluster.RESTConfig()
	config.CAData, config.CAFile, config.Insecure = nil, "", true // it serves a certificate of its own making
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/metrics", cluster.Scheduler.Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	metrics := testutil.NewMetrics()
	if err := testutil.ParseMetrics(string(body), &metrics); err != nil {
		t.Fatal(err)
	}
	if samples := metrics["version_info"]; len(samples) == 1 {
		return version.MustParseGeneric(string(samples[0].Metric["emulation"]))
	}
	t.Fatalf("the scheduler says that it behaves as %v", metrics["version_info"])
	return nil
}

// TestTheSchedulerBehavesAsItsServer, or as its own version where that is the older one.
func TestTheSchedulerBehavesAsItsServer(t *testing.T) {
	found, err := cluster.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	server, err := emulation.ServerVersion(found)
	if err != nil {
		t.Fatal(err)
	}
	want, err := emulation.Choose(emulation.OwnVersion(), server, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := schedulerBehavesAs(t); !got.EqualTo(want.Version) {
		t.Errorf("it behaves as %s, want %s", got, want.Version)
	}
}

func TestAGangStartsWhole(t *testing.T) {
	e := cluster.NewEnvWithPool(t)
	e.Start(clustertest.Job{Name: "gang", GPUs: 8, Nodes: 2})
}

func TestADisruptedJobRunsAgain(t *testing.T) {
	e := cluster.NewEnvWithPool(t)
	pod := e.Start(clustertest.Job{Name: "moved", GPUs: 8})[0]
	e.Evict(pod)
	e.Again("moved", pod, time.Now())
}

func TestThePoliciesAreEnforced(t *testing.T) {
	e := cluster.NewEnv(t)
	as := cluster.RESTConfig()
	as.Impersonate.UserName = fmt.Sprintf("system:serviceaccount:%s:default", e.Namespace)
	editors := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "editors"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: e.Namespace}},
	}
	if _, err := cluster.Client.RbacV1().RoleBindings(e.Namespace).Create(t.Context(), editors, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	user, err := clients.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "free"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox"}}},
	}
	e.Eventually("a pod without privileges to be taken", func(ctx context.Context) (bool, error) {
		_, err := user.CoreV1().Pods(e.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err), nil // roles and the account come in a moment
	})
	pod = pod.DeepCopy()
	pod.Name, pod.Spec.NodeName = "past-the-scheduler", cluster.Fleet.Groups[0].NamePrefix+"-01"
	if _, err := user.CoreV1().Pods(e.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "g8s-pods") {
		t.Errorf("a pod that names its node: got error %v", err)
	}
	// A scheduler that does not lead any more: its epoch is none that the lease has.
	as.Impersonate.UserName = "system:serviceaccount:kube-system:" + names.SchedulerName
	late, err := clients.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "free", Annotations: map[string]string{names.AnnotationEpoch: "1000"}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: cluster.Fleet.Groups[0].NamePrefix + "-01"},
	}
	if err := late.CoreV1().Pods(e.Namespace).Bind(t.Context(), binding, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "g8s-fence") {
		t.Errorf("a binding of another epoch: got error %v", err)
	}
}

// TestAStandbyTakesOver has a job placed though the leader was killed.
func TestAStandbyTakesOver(t *testing.T) {
	e := cluster.NewEnvWithPool(t)
	if _, err := cluster.StartScheduler(t.Context(), sandbox.SchedulerOptions{Name: standbyName}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Scheduler.Kill(); err != nil {
		t.Fatal(err)
	}
	e.Start(clustertest.Job{Name: "after", GPUs: 1})
}

// TestNobodyAsksForWhatIsNotThere reads the logs of all programs: what they watch is served, and they may.
func TestNobodyAsksForWhatIsNotThere(t *testing.T) {
	wrong := regexp.MustCompile(`(?i)could not find the requested resource|failed to (list|watch)|forbidden|no matches for kind|unknown field`)
	for _, name := range []string{names.SchedulerName, standbyName, sandbox.ControllerName, sandbox.ServerName, sandbox.LedgerName} {
		process := cluster.FindProcess(name)
		if process == nil {
			t.Fatalf("%s does not run", name)
		}
		log, err := os.ReadFile(process.LogPath())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if wrong.MatchString(line) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}
