package tencent

import (
	"context"
	"time"

	"github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common"
	cvm "github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/cvm/v20170312"

	"g8s.host/gpu-scheduler/pkg/controller/spot"
)

// List reads the instances with the tags, page by page, and known ones that are missing: tags may appear late.
func (c *cloud) List(ctx context.Context, known []string) ([]spot.Instance, error) {
	found := map[string]bool{}
	var out []spot.Instance
	add := func(instances []*cvm.Instance) {
		for _, instance := range instances {
			if instance != nil && instance.InstanceId != nil && !found[*instance.InstanceId] {
				found[*instance.InstanceId] = true
				out = append(out, instanceOf(instance))
			}
		}
	}
	for number := range maxPages {
		request := cvm.NewDescribeInstancesRequest()
		request.Filters = []*cvm.Filter{tagFilter(tagCluster, c.account.Owner.Cluster), tagFilter(tagPool, c.account.Owner.Pool)}
		request.Offset, request.Limit = common.Int64Ptr(int64(number)*pageSize), common.Int64Ptr(pageSize)
		instances, err := c.describeInstances(ctx, request)
		if err != nil {
			return nil, err
		}
		add(instances)
		if len(instances) < pageSize {
			break
		}
	}
	var missing []string
	for _, id := range known {
		if !found[id] {
			missing = append(missing, id)
		}
	}
	for len(missing) > 0 {
		some := missing[:min(maxFilterValues, len(missing))]
		missing = missing[len(some):]
		request := cvm.NewDescribeInstancesRequest()
		request.Filters = []*cvm.Filter{{Name: common.StringPtr("instance-id"), Values: common.StringPtrs(some)}}
		instances, err := c.describeInstances(ctx, request)
		if err != nil {
			return nil, err
		}
		add(instances)
	}
	return out, nil
}

func tagFilter(key, value string) *cvm.Filter {
	return &cvm.Filter{Name: common.StringPtr("tag:" + key), Values: common.StringPtrs([]string{value})}
}

func (c *cloud) describeInstances(ctx context.Context, request *cvm.DescribeInstancesRequest) ([]*cvm.Instance, error) {
	response, err := c.client.DescribeInstancesWithContext(ctx, request)
	if err != nil {
		return nil, translateError(err)
	}
	if response.Response == nil {
		return nil, &spot.Error{Kind: spot.Lost}
	}
	return response.Response.InstanceSet, nil
}

func instanceOf(in *cvm.Instance) spot.Instance {
	out := spot.Instance{ID: *in.InstanceId, InstanceType: stringValue(in.InstanceType), State: stateOf(stringValue(in.InstanceState))}
	if in.Placement != nil {
		out.Zone = stringValue(in.Placement.Zone)
	}
	if len(in.PrivateIpAddresses) > 0 {
		out.PrivateIP = stringValue(in.PrivateIpAddresses[0])
	}
	if len(in.PublicIpAddresses) > 0 {
		out.PublicIP = stringValue(in.PublicIpAddresses[0])
	}
	if at, err := time.Parse(time.RFC3339, stringValue(in.CreatedTime)); err == nil {
		out.Created = at
	}
	for _, tag := range in.Tags {
		if tag != nil && stringValue(tag.Key) == tagMachine {
			out.Machine = stringValue(tag.Value)
		}
	}
	return out
}

func stringValue(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

// stateOf converts an instance state to that of package spot.
func stateOf(state string) spot.InstanceState {
	switch state {
	case "PENDING", "STARTING":
		return spot.Starting
	case "STOPPING", "SHUTDOWN", "TERMINATING":
		return spot.Stopping
	case "LAUNCH_FAILED":
		return spot.Broken
	case "STOPPED":
		return spot.Halted
	}
	return spot.Running
}
