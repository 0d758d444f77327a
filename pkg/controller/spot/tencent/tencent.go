// Package tencent buys machines from Tencent Cloud: CVM instances, by its API 3.0.
//
// The cloud's messages are never shown, because they may repeat the input. Its codes are, with texts of package spot.
package tencent

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common"
	sdkerrors "github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common/errors"
	"github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common/profile"
	cvm "github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/cvm/v20170312"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/spot"
)

// Endpoint is the address of the API.
const Endpoint = "https://cvm.tencentcloudapi.com"

// The keys of the Secret of an account.
const (
	keyID  = "secretId"
	keyKey = "secretKey"
)

// The tags of machines.
const (
	tagCluster = "g8s.host/cluster"
	tagPool    = "g8s.host/spot-pool"
	tagMachine = "g8s.host/machine"
)

const (
	// callSeconds bounds a call.
	callSeconds = 15
	// pageSize is the most instances that one call accepts or returns.
	pageSize = 100
	// maxFilterValues is the most values of a filter.
	maxFilterValues = 5
	// maxPages bounds the pages read: more machines than a SpotPool may have.
	maxPages = 50
)

// Connect returns a function that connects to the API at an address. The HTTP connections are shared.
func Connect(endpoint string) (spot.Connect, error) {
	address, err := url.Parse(endpoint)
	if err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http" || strings.Trim(address.Path, "/") != "" {
		return nil, errors.New("the address of the API of Tencent Cloud must be like " + Endpoint)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	return func(account spot.Account) (spot.Cloud, error) {
		id, key := account.Credentials[keyID].Trimmed(), account.Credentials[keyKey].Trimmed()
		if id == "" || key == "" {
			return nil, &spot.Error{Kind: spot.Denied, Text: "the Secret of credentialsSecret must have the keys " + keyID + " and " + keyKey}
		}
		p := profile.NewClientProfile()
		p.Language = "en-US"
		p.HttpProfile.Scheme, p.HttpProfile.Endpoint, p.HttpProfile.ReqTimeout = strings.ToUpper(address.Scheme), address.Host, callSeconds
		client, err := cvm.NewClient(common.NewCredential(id, key), account.Provider.Region, p)
		if err != nil {
			return nil, &spot.Error{Kind: spot.Denied, Text: "the account cannot be used"}
		}
		client.WithHttpTransport(transport)
		return &cloud{client: client, account: account}, nil
	}, nil
}

// cloud is an account as one SpotPool sees it.
type cloud struct {
	client  *cvm.Client
	account spot.Account
}

// Launch buys an instance. Its hostname is the name of the machine.
func (c *cloud) Launch(ctx context.Context, order spot.Order) (string, error) {
	response, err := c.client.RunInstancesWithContext(ctx, c.runRequest(order))
	if err != nil {
		return "", c.explainRefusal(translateError(err))
	}
	if response.Response == nil || len(response.Response.InstanceIdSet) != 1 || response.Response.InstanceIdSet[0] == nil {
		return "", &spot.Error{Kind: spot.Lost}
	}
	return *response.Response.InstanceIdSet[0], nil
}

// explainRefusal adds a hint to an error that names no field: the cloud's requirement for images, which we cannot check.
func (c *cloud) explainRefusal(err error) error {
	var refusal *spot.Error
	if len(c.account.Template.KeyPairs) > 0 || !errors.As(err, &refusal) || !slices.Contains(vagueCodes, refusal.Code) {
		return err
	}
	return &spot.Error{
		Kind: refusal.Kind, Code: refusal.Code, Text: refusal.Kind.String() + "; without keyPairs the image must be one of the account's own, or shared with it",
	}
}

// vagueCodes are the codes with which the cloud rejects mutually exclusive fields.
var vagueCodes = []string{"InvalidParameter", "InvalidParameterCombination", "InvalidParameterConflict", "InvalidParameterValue"}

// runRequest converts an order to the cloud's request.
func (c *cloud) runRequest(order spot.Order) *cvm.RunInstancesRequest {
	template := c.account.Template
	request := cvm.NewRunInstancesRequest()
	request.ClientToken = common.StringPtr(order.Token)
	request.InstanceCount = common.Int64Ptr(1)
	request.InstanceType = common.StringPtr(order.InstanceType)
	request.Placement = &cvm.Placement{Zone: common.StringPtr(order.Zone)}
	request.InstanceName, request.HostName = common.StringPtr(order.Machine), common.StringPtr(order.Machine)
	request.ImageId = common.StringPtr(template.Image)
	request.VirtualPrivateCloud = &cvm.VirtualPrivateCloud{
		VpcId: common.StringPtr(template.Network), SubnetId: common.StringPtr(subnetOf(template, order.Zone)),
	}
	request.SecurityGroupIds = common.StringPtrs(template.SecurityGroups)
	setChargeType(request, template)
	if disk := template.Disk; disk != nil {
		request.SystemDisk = &cvm.SystemDisk{DiskSize: common.Int64Ptr(int64(disk.SizeGiB))}
		if disk.Type != "" {
			request.SystemDisk.DiskType = common.StringPtr(disk.Type)
		}
	}
	request.InternetAccessible = internetOf(template)
	// Without either setting the cloud generates a password and sends it to the owner of the account. It rejects both together.
	request.LoginSettings = &cvm.LoginSettings{KeepImageLogin: common.StringPtr("TRUE")}
	if len(template.KeyPairs) > 0 {
		request.LoginSettings = &cvm.LoginSettings{KeyIds: common.StringPtrs(template.KeyPairs)}
	}
	if template.Role != "" {
		request.CamRoleName = common.StringPtr(template.Role)
	}
	if data := c.account.UserData.Reveal(); data != "" {
		request.UserData = common.StringPtr(base64.StdEncoding.EncodeToString([]byte(data)))
	}
	request.TagSpecification = []*cvm.TagSpecification{{
		ResourceType: common.StringPtr("instance"),
		Tags: []*cvm.Tag{
			newTag(tagCluster, c.account.Owner.Cluster), newTag(tagPool, c.account.Owner.Pool), newTag(tagMachine, order.Machine),
		},
	}}
	return request
}

// setChargeType sets how a machine is paid for.
func setChargeType(request *cvm.RunInstancesRequest, template g8s.MachineTemplate) {
	if template.ChargeType == g8s.ChargeOnDemand {
		request.InstanceChargeType = common.StringPtr("POSTPAID_BY_HOUR")
		return
	}
	request.InstanceChargeType = common.StringPtr("SPOTPAID")
	if template.MaxPrice != "" {
		request.InstanceMarketOptions = &cvm.InstanceMarketOptionsRequest{
			MarketType:  common.StringPtr("spot"),
			SpotOptions: &cvm.SpotMarketOptions{MaxPrice: common.StringPtr(template.MaxPrice), SpotInstanceType: common.StringPtr("one-time")},
		}
	}
}

// internetOf returns how a machine reaches the internet, nil if it does not.
func internetOf(template g8s.MachineTemplate) *cvm.InternetAccessible {
	internet := template.Internet
	if internet == nil {
		return nil
	}
	out := &cvm.InternetAccessible{
		InternetChargeType:      common.StringPtr(internetCharges[internet.ChargeType]),
		InternetMaxBandwidthOut: common.Int64Ptr(int64(internet.BandwidthMbps)),
		PublicIpAssigned:        common.BoolPtr(ptr.Deref(internet.PublicIP, true)),
	}
	if internet.BandwidthPackage != "" {
		out.BandwidthPackageId = common.StringPtr(internet.BandwidthPackage)
	}
	return out
}

// internetCharges are the internet charge types in the cloud's terms.
var internetCharges = map[string]string{
	g8s.InternetBandwidth: "BANDWIDTH_POSTPAID_BY_HOUR", g8s.InternetTraffic: "TRAFFIC_POSTPAID_BY_HOUR",
	g8s.InternetBandwidthPackage: "BANDWIDTH_PACKAGE",
}

func newTag(key, value string) *cvm.Tag {
	return &cvm.Tag{Key: common.StringPtr(key), Value: common.StringPtr(value)}
}

func subnetOf(template g8s.MachineTemplate, zone string) string {
	for _, z := range template.Zones {
		if z.Name == zone {
			return z.Subnet
		}
	}
	return ""
}

// Terminate ends instances. If the cloud rejects a batch, it terminates each instance alone.
func (c *cloud) Terminate(ctx context.Context, ids []string) error {
	var failed []error
	for len(ids) > 0 {
		some := ids[:min(pageSize, len(ids))]
		ids = ids[len(some):]
		err := c.terminateInstances(ctx, some)
		if err != nil && len(some) > 1 && kindOf(err) == spot.Refused {
			err = nil
			for _, id := range some {
				err = errors.Join(err, c.terminateInstances(ctx, []string{id}))
			}
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (c *cloud) terminateInstances(ctx context.Context, ids []string) error {
	request := cvm.NewTerminateInstancesRequest()
	request.InstanceIds = common.StringPtrs(ids)
	_, err := c.client.TerminateInstancesWithContext(ctx, request)
	if len(ids) == 1 && hasEnded(err) {
		return nil //nolint:nilerr // it has ended already
	}
	return translateError(err)
}

// hasEnded reports whether an instance could not be terminated because it has ended or is ending.
func hasEnded(err error) bool {
	code := codeOf(err)
	return code == cvm.INVALIDINSTANCEID_NOTFOUND || strings.HasSuffix(code, "Terminating") || strings.HasSuffix(code, "Shutdown") ||
		strings.HasSuffix(code, "Terminated")
}

func codeOf(err error) string {
	var refusal *sdkerrors.TencentCloudSDKError
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return ""
}

func kindOf(err error) spot.Kind {
	var refusal *spot.Error
	if errors.As(err, &refusal) {
		return refusal.Kind
	}
	return spot.Lost
}

// codePattern matches valid codes. Anything else is not shown.
var codePattern = regexp.MustCompile(`^[A-Za-z]+(\.[A-Za-z0-9]+)*$`)

// translateError converts an error of the SDK.
func translateError(err error) error {
	if err == nil {
		return nil
	}
	code := codeOf(err)
	if code == "" || !codePattern.MatchString(code) || len(code) > 100 {
		return &spot.Error{Kind: spot.Lost}
	}
	return &spot.Error{Kind: errorKind(code), Code: code}
}

// errorKind returns the kind of a code: the first row whose prefix matches. An unknown code is a refusal.
func errorKind(code string) spot.Kind {
	for _, row := range []struct {
		prefix string
		kind   spot.Kind
	}{
		{"ClientError", spot.Lost},
		{"InternalError", spot.Lost},
		{"InternalServerError", spot.Lost},
		{"RequestLimitExceeded", spot.Throttled},
		{"AuthFailure", spot.Denied},
		{"UnauthorizedOperation", spot.Denied},
		{"InvalidAccount", spot.Denied},
		{"AccountQualificationRestrictions", spot.Denied},
		{"ResourceInsufficient", spot.SoldOut},
		{"ResourcesSoldOut", spot.SoldOut},
		{"ResourceUnavailable", spot.SoldOut},
		{"LimitExceeded", spot.SoldOut},
		{"InstancesQuotaLimitExceeded", spot.SoldOut},
	} {
		if strings.HasPrefix(code, row.prefix) {
			return row.kind
		}
	}
	return spot.Refused
}
