package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/sandbox"
)

const nodesTimeout = 3 * time.Second

func newStatusCmd(p *location) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the processes and nodes of a cluster",
		Long:  "Show the processes and nodes of a cluster. The exit code is 1 when it does not run or a part of it crashed.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := p.readState()
			if err != nil {
				return err
			}
			switch output {
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				err = encoder.Encode(st)
			case "table":
				err = printStatus(cmd.Context(), cmd.OutOrStdout(), st, time.Now())
			default:
				err = fmt.Errorf("reading --output: %q is neither table nor json", output)
			}
			return errors.Join(err, st.crashError())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "Output format: table or json")
	return cmd
}

// crashError returns an error that names the crashed components and shows the ends of their logs.
func (s state) crashError() error {
	var errs []error
	for _, c := range s.Components {
		if c.Crash != "" {
			errs = append(errs, &sandbox.ExitError{Name: c.Name, Reason: c.Crash, Log: c.Log, Tail: sandbox.TailLog(c.Log)})
		}
	}
	return errors.Join(errs...)
}

func printStatus(ctx context.Context, out io.Writer, st state, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tPID\tPORT\tUPTIME\tSTATE")
	for _, c := range st.Components {
		status := "running"
		if c.Crash != "" {
			status = "crashed"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", c.Name, c.PID, c.Port, now.Sub(c.Started).Round(time.Second), status)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the status: %w", err)
	}
	nodes, err := listNodes(ctx, st.Kubeconfig)
	if err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "POOL\tNODES\tREADY\tGPUS\tTYPES")
	for _, row := range sumByPool(nodes) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", row.pool, row.nodes, row.ready, row.gpus, strings.Join(row.types, ","))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the status: %w", err)
	}
	return nil
}

func listNodes(ctx context.Context, kubeconfig string) ([]corev1.Node, error) {
	client, err := newClient(kubeconfig)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// newClient returns a client of the cluster that a kubeconfig names.
func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return client, nil
}

// poolRow sums up the nodes of a pool.
type poolRow struct {
	pool               string
	nodes, ready, gpus int64
	types              []string
}

// sumByPool sums up nodes, in the order of the pools' names.
func sumByPool(nodes []corev1.Node) []poolRow {
	rows := map[string]poolRow{}
	for i := range nodes {
		node := &nodes[i]
		row := rows[gpu.PoolOf(node)]
		row.pool = gpu.PoolOf(node)
		row.nodes++
		if condition.IsNodeTrue(node, corev1.NodeReady) {
			row.ready++
		}
		count := node.Status.Allocatable[g8s.ResourceGPU]
		row.gpus += count.Value()
		if kind := gpu.TypeOf(node); kind != "" && !slices.Contains(row.types, kind) {
			row.types = append(row.types, kind)
		}
		rows[row.pool] = row
	}
	var sorted []poolRow
	for _, pool := range slices.Sorted(maps.Keys(rows)) {
		slices.Sort(rows[pool].types)
		sorted = append(sorted, rows[pool])
	}
	return sorted
}
