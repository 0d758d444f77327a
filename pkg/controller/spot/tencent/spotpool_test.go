package tencent

import (
	"fmt"
	"time"

	"github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common"
	"github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common/errors"
	"github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common/profile"
	cvm "github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/cvm/v20170312"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What follows is the code of the published Spotpool, names and all, less what it prints and its client of Kubernetes: it asks the cloud
// by the same SDK as we do. Only the endpoint is ours.

type SpotpoolSpec struct {
	SecretId           string   `json:"secretId,omitempty"` //nolint:revive // as published
	SecretKey          string   `json:"secretKey,omitempty"`
	Region             string   `json:"region,omitempty"`
	AvaliableZone      string   `json:"availabilityZone,omitempty"`
	InstanceType       string   `json:"instanceType,omitempty"`
	SubnetId           string   `json:"subnetId,omitempty"`         //nolint:revive // as published
	VpcId              string   `json:"vpcId,omitempty"`            //nolint:revive // as published
	SecurityGroupId    []string `json:"securityGroupIds,omitempty"` //nolint:revive // as published
	ImageId            string   `json:"imageId,omitempty"`          //nolint:revive // as published
	InstanceChargeType string   `json:"instanceChargeType,omitempty"`
	Minimum            int32    `json:"minimum,omitempty"`
	Maximum            int32    `json:"maximum,omitempty"`
}

type SpotpoolStatus struct {
	Size       int32              `json:"size,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Instances  []Instances        `json:"instances,omitempty"`
}

type Instances struct {
	InstanceId string `json:"instanceId,omitempty"` //nolint:revive // as published
	PublicIp   string `json:"publicIp,omitempty"`   //nolint:revive // as published
}

type Spotpool struct {
	Spec   SpotpoolSpec   `json:"spec,omitempty"`
	Status SpotpoolStatus `json:"status,omitempty"`
}

// SpotpoolReconciler is the published one. endpoint is where the API is.
type SpotpoolReconciler struct{ endpoint string }

func (r *SpotpoolReconciler) getRunningInstanceIds(spotpool *Spotpool) ([]string, error) { //nolint:revive // as published
	client, err := r.createCVMClient(spotpool.Spec)
	if err != nil {
		return nil, err
	}
	request := cvm.NewDescribeInstancesRequest()
	response, err := client.DescribeInstances(request)
	if err != nil {
		return nil, err
	}
	var instances []Instances
	var runningInstanceIDs []string
	for _, instance := range response.Response.InstanceSet {
		if *instance.InstanceState == "RUNNING" || *instance.InstanceState == "PENDING" || *instance.InstanceState == "STARTING" {
			runningInstanceIDs = append(runningInstanceIDs, *instance.InstanceId)
		}
		if len(instance.PublicIpAddresses) == 0 {
			return nil, fmt.Errorf("instance %s does not have public ip", *instance.InstanceId)
		}
		instances = append(instances, Instances{
			InstanceId: *instance.InstanceId,
			PublicIp:   *instance.PublicIpAddresses[0],
		})
	}
	spotpool.Status.Instances = instances
	return runningInstanceIDs, nil
}

func (r *SpotpoolReconciler) createCVMClient(spec SpotpoolSpec) (*cvm.Client, error) {
	credential := common.NewCredential(spec.SecretId, spec.SecretKey)
	cpf := profile.NewClientProfile()
	cpf.HttpProfile.ReqMethod = "POST"
	cpf.HttpProfile.ReqTimeout = 30
	cpf.SignMethod = "HmacSHA1"
	cpf.HttpProfile.Scheme, cpf.HttpProfile.Endpoint = "HTTP", r.endpoint // ours
	client, err := cvm.NewClient(credential, spec.Region, cpf)
	if err != nil {
		return nil, err
	}
	return client, nil
}

func (r *SpotpoolReconciler) runInstances(spotpool *Spotpool, count int32) error {
	client, err := r.createCVMClient(spotpool.Spec)
	if err != nil {
		return err
	}
	request := cvm.NewRunInstancesRequest()
	request.ImageId = common.StringPtr(spotpool.Spec.ImageId)
	request.Placement = &cvm.Placement{
		Zone: common.StringPtr(spotpool.Spec.AvaliableZone),
	}
	request.InstanceChargeType = common.StringPtr(spotpool.Spec.InstanceChargeType)
	request.InstanceCount = common.Int64Ptr(int64(count))
	request.InstanceName = common.StringPtr("spotpool" + time.Now().Format("20060102150405"))
	request.InstanceType = common.StringPtr(spotpool.Spec.InstanceType)
	request.InternetAccessible = &cvm.InternetAccessible{
		InternetChargeType:      common.StringPtr("BANDWIDTH_POSTPAID_BY_HOUR"),
		InternetMaxBandwidthOut: common.Int64Ptr(1),
		PublicIpAssigned:        common.BoolPtr(true),
	}
	request.LoginSettings = &cvm.LoginSettings{
		Password: common.StringPtr("Password123"),
	}
	request.SecurityGroupIds = common.StringPtrs(spotpool.Spec.SecurityGroupId)
	request.SystemDisk = &cvm.SystemDisk{
		DiskType: common.StringPtr("CLOUD_BSSD"),
		DiskSize: common.Int64Ptr(100),
	}
	request.VirtualPrivateCloud = &cvm.VirtualPrivateCloud{
		SubnetId: common.StringPtr(spotpool.Spec.SubnetId),
		VpcId:    common.StringPtr(spotpool.Spec.VpcId),
	}
	_, err = client.RunInstances(request)
	if _, ok := err.(*errors.TencentCloudSDKError); ok { //nolint:errorlint // as published
		return err
	}
	if err != nil {
		return err
	}
	_, err = r.getRunningInstanceIds(spotpool)
	return err
}

func (r *SpotpoolReconciler) terminateInstances(spotpool *Spotpool, count int32) error {
	client, err := r.createCVMClient(spotpool.Spec)
	if err != nil {
		return err
	}
	runningInstances, err := r.getRunningInstanceIds(spotpool)
	if err != nil {
		return err
	}
	instancesIds := runningInstances[:count] //nolint:revive // as published
	request := cvm.NewTerminateInstancesRequest()
	request.InstanceIds = common.StringPtrs(instancesIds)
	_, err = client.TerminateInstances(request)
	if _, ok := err.(*errors.TencentCloudSDKError); ok { //nolint:errorlint // as published
		return err
	}
	if err != nil {
		return err
	}
	_, err = r.getRunningInstanceIds(spotpool)
	return err
}
