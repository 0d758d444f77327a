package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// labelName is the label by which our workloads and Services select their pods.
const labelName = "app.kubernetes.io/name"

// partTaken is what the check of names reads.
const partTaken = "names"

// service is what kubectl calls a Service.
const service = "service"

// NameConflicts are objects under our names that differ from the manifests.
type NameConflicts struct {
	// Objects are workloads and Services that select other pods, such as "deployment gpu-scheduler", in kube-system.
	Objects []string
	// Roles are the roles of teams that lack rights that gpuctl requires.
	Roles []string
	// Defaults are LimitRanges that give GPUs to containers which ask for none, as namespace/name.
	Defaults []string
}

// installedServices are those in kube-system, and the program that each is for.
var installedServices = map[string]string{
	"gpu-scheduler": "gpu-scheduler", "gpu-scheduler-metrics": "gpu-scheduler", "gpu-controller-metrics": "gpu-controller",
}

// teamRoles are those of manifests/tenancy, with the verb on jobs that each grants.
var teamRoles = map[string]string{"gpu-resource-reader": "list", "gpu-resource-manager": "create"}

// checkNames looks for other objects under our names. A popular case study has created some of them.
func (f *Installation) checkNames() Check {
	const name = "names"
	taken := &f.NameConflicts
	switch {
	case len(taken.Objects) > 0:
		return Check{Name: name, Status: Failed,
			Text: phrase.Textf("others have objects under our names in kube-system, so that ours are refused or select other pods: %s", examplesText(taken.Objects)),
			Advice: phrase.Textf("delete them, then install: kubectl -n kube-system delete %s; docs/install.md tells what becomes of their pods",
				slices.Min(taken.Objects))}
	case len(taken.Roles) > 0:
		return Check{Name: name, Status: Warning, Text: phrase.Textf("these cluster roles are not ours, and gpuctl may not see or make jobs by them: %s", examplesText(taken.Roles)),
			Advice: phrase.Textf("put ours in their place: kubectl apply --server-side --force-conflicts -f manifests/tenancy/roles.yaml")}
	case len(taken.Defaults) > 0:
		return Check{Name: name, Status: Warning, Text: phrase.Textf("limit ranges give GPUs to containers that ask for none: %s", examplesText(taken.Defaults)),
			Advice: phrase.Textf("set their default of GPUs to 0, as in manifests/tenancy/quota.yaml")}
	case slices.Contains(f.Hidden, partTaken):
		return Check{Name: name, Status: Unknown, Text: phrase.Textf("you may not read what there is under our names"),
			Advice: phrase.Textf("ask an administrator to run gpuctl doctor --install")}
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("no objects of others have ours")}
}

// readNameConflicts reads the existing objects under our names, and the LimitRanges.
func (f *Installation) readNameConflicts(ctx context.Context, client kubernetes.Interface, unread *[]string) error {
	for _, read := range []func(context.Context, kubernetes.Interface) error{f.readConflictingWorkloads, f.readConflictingServices, f.readTeamRoles, f.readDefaults} {
		err := read(ctx, client)
		switch {
		case apierrors.IsForbidden(err):
			*unread = []string{partTaken}
		case err != nil:
			return phrase.Errorf("reading what there is under our names: %w", err)
		}
	}
	slices.Sort(f.NameConflicts.Objects)
	return nil
}

func (f *Installation) readConflictingWorkloads(ctx context.Context, client kubernetes.Interface) error {
	apps := client.AppsV1()
	selects := map[string]func(name string) (*metav1.LabelSelector, error){
		deployment: func(name string) (*metav1.LabelSelector, error) {
			d, err := apps.Deployments(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
			return d.Spec.Selector, err
		},
		statefulSet: func(name string) (*metav1.LabelSelector, error) {
			s, err := apps.StatefulSets(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
			return s.Spec.Selector, err
		},
		daemonSet: func(name string) (*metav1.LabelSelector, error) {
			d, err := apps.DaemonSets(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
			return d.Spec.Selector, err
		},
	}
	for _, c := range installable {
		if c.namespace != metav1.NamespaceSystem {
			continue
		}
		selector, err := selects[c.kind](c.name)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case selector == nil || selector.MatchLabels[labelName] != c.name:
			f.NameConflicts.Objects = append(f.NameConflicts.Objects, fmt.Sprintf("%s %s", strings.ToLower(c.kind), c.name))
		}
	}
	return nil
}

func (f *Installation) readConflictingServices(ctx context.Context, client kubernetes.Interface) error {
	for _, name := range slices.Sorted(maps.Keys(installedServices)) {
		found, err := client.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case !maps.Equal(found.Spec.Selector, map[string]string{labelName: installedServices[name]}):
			f.NameConflicts.Objects = append(f.NameConflicts.Objects, fmt.Sprintf("%s %s", service, name))
		}
	}
	return nil
}

// readTeamRoles checks the rights, not the labels: kubectl apply replaces our rules and keeps our labels.
func (f *Installation) readTeamRoles(ctx context.Context, client kubernetes.Interface) error {
	for _, name := range slices.Sorted(maps.Keys(teamRoles)) {
		role, err := client.RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case role.AggregationRule == nil && !slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return allowsJobs(rule, teamRoles[name]) }):
			f.NameConflicts.Roles = append(f.NameConflicts.Roles, name)
		}
	}
	return nil
}

// allowsJobs reports whether a rule grants a right on Jobs.
func allowsJobs(rule rbacv1.PolicyRule, verb string) bool {
	has := func(list []string, one string) bool { return slices.Contains(list, one) || slices.Contains(list, "*") }
	return has(rule.APIGroups, "batch") && has(rule.Resources, "jobs") && has(rule.Verbs, verb)
}

func (f *Installation) readDefaults(ctx context.Context, client kubernetes.Interface) error {
	read, err := snapshot.Read(ctx, client, snapshot.LimitRanges(snapshot.Scope{}))
	if err != nil {
		return err
	}
	for i := range read.LimitRanges {
		if one := &read.LimitRanges[i]; len(quota.GPUDefaults([]corev1.LimitRange{*one})) > 0 {
			f.NameConflicts.Defaults = append(f.NameConflicts.Defaults, one.Namespace+"/"+one.Name)
		}
	}
	return nil
}
