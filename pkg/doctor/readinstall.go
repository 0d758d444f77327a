package doctor

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/emulation"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// installing are the rights that an installation requires, in kube-system or in the whole cluster. A user without the right to escalate cannot create
// a role with rights that the user does not have.
var installing = []Right{
	{Verb: "create", Group: "apiextensions.k8s.io", Kind: "customresourcedefinitions", All: true},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Kind: "clusterroles", All: true},
	{Verb: "escalate", Group: "rbac.authorization.k8s.io", Kind: "clusterroles", All: true},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Kind: "clusterrolebindings", All: true},
	{Verb: "create", Group: "admissionregistration.k8s.io", Kind: "validatingadmissionpolicies", All: true},
	{Verb: "create", Group: "admissionregistration.k8s.io", Kind: "validatingadmissionpolicybindings", All: true},
	{Verb: "create", Group: "scheduling.k8s.io", Kind: "priorityclasses", All: true},
	{Verb: "create", Kind: "namespaces", All: true},
	{Verb: "create", Group: "apps", Kind: "deployments"},
	{Verb: "create", Group: "apps", Kind: "daemonsets"},
	{Verb: "create", Group: "apps", Kind: "statefulsets"},
	{Verb: "create", Kind: "configmaps"},
	{Verb: "create", Kind: "secrets"},
	{Verb: "create", Kind: "services"},
	{Verb: "create", Kind: "serviceaccounts"},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Kind: "roles"},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Kind: "rolebindings"},
	{Verb: "create", Group: "networking.k8s.io", Kind: "networkpolicies"},
	{Verb: "create", Group: "policy", Kind: "poddisruptionbudgets"},
}

// ReadInstallation gathers what [ExamineInstallation] examines, in some fifty requests. now is the clock of this machine.
func ReadInstallation(ctx context.Context, client kubernetes.Interface, now func() time.Time) (Installation, error) {
	found, err := client.Discovery().ServerVersion()
	if err != nil {
		return Installation{}, phrase.Errorf("asking the API server for its version: %w", err)
	}
	f := Installation{Facts: Facts{Server: found.GitVersion, Namespace: metav1.NamespaceSystem, Rights: make([]Right, len(installing))}}
	if behaves, err := emulation.ServerVersion(found); err == nil {
		f.Behaves = behaves
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, right := range installing {
		group.Go(func() error { return readRight(ctx, client, metav1.NamespaceSystem, right, &f.Rights[i]) })
	}
	group.Go(func() error { return readGroups(client, &f.Facts) })
	group.Go(func() error { return f.readController(ctx, client) })
	unknown := false
	group.Go(func() (err error) {
		unknown, err = f.readPolicies(ctx, client)
		return err
	})
	var read *snapshot.Snapshot
	group.Go(func() (err error) {
		read, err = snapshot.Read(ctx, client, snapshot.Clock(now()), snapshot.Lease().IfAllowed(), snapshot.Namespaces().IfAllowed(),
			snapshot.Nodes(snapshot.Scope{}).IfAllowed())
		return err
	})
	// The four write different parts. Each lists what it may not read in an element of its own, without a lock.
	var unread [4][]string
	group.Go(func() error { return f.readCRDs(ctx, client, &unread[0]) })
	group.Go(func() error { return f.readWorkloads(ctx, client, &unread[1]) })
	group.Go(func() error { return f.readConfigs(ctx, client, &unread[2]) })
	group.Go(func() error { return f.readNameConflicts(ctx, client, &unread[3]) })
	if err := group.Wait(); err != nil {
		return f, err
	}
	f.Hidden = slices.Concat(unread[:]...)
	f.Snapshot = *read
	if unknown {
		f.MarkUnread(snapshot.PartPolicies)
	}
	return f, nil
}

// readPolicies reads the policies, and the API server's warnings about them.
func (f *Installation) readPolicies(ctx context.Context, client kubernetes.Interface) (unknown bool, err error) {
	list, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return true, nil
	case apierrors.IsNotFound(err):
		f.NoPolicies = true
		return false, nil
	case err != nil:
		return false, phrase.Errorf("reading admission policies: %w", err)
	}
	for i := range list.Items {
		policy := &list.Items[i]
		f.Policies = append(f.Policies, policy.Name)
		if checked := policy.Status.TypeChecking; slices.Contains(installedPolicies, policy.Name) && checked != nil && len(checked.ExpressionWarnings) > 0 {
			f.Suspect = append(f.Suspect, policy.Name)
		}
	}
	bindings, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return true, nil
	}
	if err != nil {
		return false, phrase.Errorf("reading the bindings of admission policies: %w", err)
	}
	for i := range bindings.Items {
		f.Bindings = append(f.Bindings, bindings.Items[i].Name)
	}
	return false, nil
}

// readCRDs reads those of ours by name. client-go has no type for them.
func (f *Installation) readCRDs(ctx context.Context, client kubernetes.Interface, unread *[]string) error {
	for name := range installedCRDs {
		data, err := client.Discovery().RESTClient().Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", name).
			SetHeader("Accept", "application/json"). // the client may be one that asks for protobuf
			Do(ctx).Raw()
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			*unread = []string{partCRDs}
			return nil
		case err != nil:
			return phrase.Errorf("reading CRD %s: %w", name, err)
		}
		crd, err := parseCRD(data)
		if err != nil {
			return phrase.Errorf("reading CRD %s: %w", name, err)
		}
		f.CRDs = append(f.CRDs, crd)
	}
	return f.readSpotPools(ctx, client)
}

// readSpotPools reads their number and their problems.
func (f *Installation) readSpotPools(ctx context.Context, client kubernetes.Interface) error {
	read, err := snapshot.Read(ctx, client, snapshot.SpotPools())
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil // the kind does not exist, or the check of CRDs reports that it may not be read
	}
	if err != nil {
		return phrase.Errorf("reading SpotPools: %w", err)
	}
	f.SpotPools = len(read.SpotPools)
	for _, pool := range inventory.BuildSpotPools(read.SpotPools) {
		if pool.Trouble != "" {
			f.SpotTroubles = append(f.SpotTroubles, SpotTrouble{pool.Name, pool.Trouble})
		}
	}
	return nil
}

func parseCRD(data []byte) (CRD, error) {
	var object struct {
		Metadata struct{ Name string }
		Spec     struct {
			Versions []struct {
				Name   string
				Served bool
			}
		}
		Status struct {
			StoredVersions []string
			Conditions     []metav1.Condition
		}
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return CRD{}, err
	}
	crd := CRD{Name: object.Metadata.Name, Stored: object.Status.StoredVersions}
	for _, served := range object.Spec.Versions {
		if served.Served {
			crd.Served = append(crd.Served, served.Name)
		}
	}
	for _, condition := range object.Status.Conditions {
		if condition.Type == "Established" {
			crd.Established = condition.Status == metav1.ConditionTrue
		}
	}
	return crd, nil
}

// partOfSelector selects what the manifests install.
const (
	labelPartOf    = "app.kubernetes.io/part-of"
	partOf         = "g8s"
	partOfSelector = labelPartOf + "=" + partOf
)

// readWorkloads reads our running workloads, in whatever namespace the server is.
func (f *Installation) readWorkloads(ctx context.Context, client kubernetes.Interface, unread *[]string) error {
	at, err := ServerNamespace(ctx, client)
	if err != nil {
		return err
	}
	apps, options := client.AppsV1(), metav1.ListOptions{LabelSelector: partOfSelector}
	deployments, err := apps.Deployments(metav1.NamespaceAll).List(ctx, options)
	if err == nil {
		for i := range deployments.Items {
			d := &deployments.Items[i]
			f.addWorkload(at, deployment, &d.ObjectMeta, &d.Spec.Template.Spec, *d.Spec.Replicas, d.Status.ReadyReplicas)
		}
		var sets *appsv1.StatefulSetList
		if sets, err = apps.StatefulSets(metav1.NamespaceAll).List(ctx, options); err == nil {
			for i := range sets.Items {
				s := &sets.Items[i]
				f.addWorkload(at, statefulSet, &s.ObjectMeta, &s.Spec.Template.Spec, *s.Spec.Replicas, s.Status.ReadyReplicas)
			}
		}
	}
	if err == nil {
		var daemons *appsv1.DaemonSetList
		if daemons, err = apps.DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{}); err == nil { // others may offer GPUs, too
			for i := range daemons.Items {
				f.addDaemons(at, &daemons.Items[i])
			}
		}
	}
	if apierrors.IsForbidden(err) {
		*unread = []string{partWorkloads}
		return nil
	}
	if err != nil {
		return phrase.Errorf("reading what is installed: %w", err)
	}
	return nil
}

// addDaemons records a DaemonSet if it is one of ours, or if it offers GPUs.
func (f *Installation) addDaemons(server string, d *appsv1.DaemonSet) {
	if plugin := newPlugin(d); plugin != nil {
		f.Plugins = append(f.Plugins, *plugin)
	}
	if d.Labels[labelPartOf] == partOf {
		f.addWorkload(server, daemonSet, &d.ObjectMeta, &d.Spec.Template.Spec, d.Status.DesiredNumberScheduled, d.Status.NumberReady)
	}
}

// ServerNamespace is the namespace of gpuctl-server: the one that the cluster bound to its role, which no user can bind. If that cannot be read, it
// is the namespace of the manifests.
func ServerNamespace(ctx context.Context, client kubernetes.Interface) (string, error) {
	binding, err := client.RbacV1().ClusterRoleBindings().Get(ctx, "g8s:"+serverName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return serverName, nil
	case err != nil:
		return "", phrase.Errorf("reading where the server is: %w", err)
	}
	for _, subject := range binding.Subjects {
		if subject.Name == serverName && subject.Namespace != "" {
			return subject.Namespace, nil
		}
	}
	return serverName, nil
}

// addWorkload records a workload if it is one of ours. Users may give theirs the same name and labels, in namespaces of their own.
func (f *Installation) addWorkload(server, kind string, meta *metav1.ObjectMeta, pod *corev1.PodSpec, want, ready int32) {
	ours := func(c component) bool {
		return c.name == meta.Name && c.namespaceOf(server) == meta.Namespace && c.kind == kind
	}
	if !slices.ContainsFunc(installable, ours) || len(pod.Containers) == 0 {
		return
	}
	f.Workloads = append(f.Workloads, Workload{
		Kind: kind, Namespace: meta.Namespace, Name: meta.Name, Desired: want, Ready: ready, Image: pod.Containers[0].Image, Args: pod.Containers[0].Args,
	})
	for i := range pod.Volumes {
		if config := pod.Volumes[i].ConfigMap; meta.Name == names.SchedulerName && config != nil && strings.HasPrefix(config.Name, configPrefix) {
			f.Mounted = config.Name
		}
	}
}

// readChannels reads the names of channels, and which of them have a URL, but not the URLs.
func (f *Installation) readChannels(ctx context.Context, client kubernetes.Interface, policy map[string]string, unread *[]string) error {
	for key := range policy {
		if name, ok := strings.CutPrefix(key, names.PolicyChannel); ok {
			f.Channels = append(f.Channels, name)
		}
	}
	slices.Sort(f.Channels)
	if len(f.Channels) == 0 {
		return nil
	}
	secret, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, names.ChannelSecret, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		*unread = append(*unread, partChannels)
		return nil
	case err != nil:
		return phrase.Errorf("reading Secret %s: %w", names.ChannelSecret, err)
	}
	for name, url := range secret.Data {
		if len(url) > 0 {
			f.Addressed = append(f.Addressed, name)
		}
	}
	return nil
}

// readConfigs reads the names of configurations, and whether the lists for the policies exist.
func (f *Installation) readConfigs(ctx context.Context, client kubernetes.Interface, unread *[]string) error {
	policy, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, names.PolicyConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		f.NoLists = true
	case apierrors.IsForbidden(err):
		*unread = []string{partLists}
	case err != nil:
		return phrase.Errorf("reading ConfigMap %s: %w", names.PolicyConfigMap, err)
	default:
		if err := f.readChannels(ctx, client, policy.Data, unread); err != nil {
			return err
		}
	}
	list, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: partOfSelector})
	if apierrors.IsForbidden(err) {
		return nil // leftovers are harmless
	}
	if err != nil {
		return phrase.Errorf("reading ConfigMaps: %w", err)
	}
	for i := range list.Items {
		if name := list.Items[i].Name; strings.HasPrefix(name, configPrefix) {
			f.Configs = append(f.Configs, name)
		}
	}
	return nil
}
