// Codes of the API in Chinese. In English a code is its own words.
export const chineseCodes: Record<string, string> = {
  Pending: '等待中', Starting: '启动中', Running: '运行中', Degraded: '降级', Failing: '失败中', Suspended: '已暂停', Cancelled: '已取消', Succeeded: '成功', Failed: '失败',
  Terminating: '终止中', Deleted: '已删除', active: '正常', cordoned: '已隔离', not_ready: '未就绪', suspect: '可疑', not_admitted: '未准入', out_of_service: '停止服务',
  leaving: '正在离开', joining: '正在加入', unavailable: '不可用', training: '训练', inference: '推理', notebook: '笔记本', compute: '计算', high: '高', medium: '中', low: '低',
  Busy: 'GPU 已满', Fragmented: '碎片化', NoSuchPool: '没有该资源池', NoSuchType: '没有该 GPU 型号', TypeMisspelt: '型号拼写错误', TypeInOtherPool: '型号在别的资源池',
  TypeNotServed: '型号不由此调度器服务', NodeSelector: '节点选择器不匹配', GPUQuotaReached: 'GPU 配额已满', GPUsLent: 'GPU 被借出', BeyondGuarantee: '超出保障额度',
  TooManyGPUs: '申请的 GPU 过多', NoGPUs: '没有 GPU', GPUMemory: '显存不足', UnhealthyGPUs: 'GPU 故障', NotShared: '不可共享', BadInventory: '清单有误', CPUShort: 'CPU 不足',
  MemoryShort: '内存不足', ResourceShort: '资源不足', PodLimit: 'Pod 数已满', Preempting: '正在抢占', RoomNow: '现在有空位', RefusedAtBinding: '绑定时被拒绝', Cordoned: '节点已隔离',
  NotReady: '节点未就绪', Tainted: '节点有污点', KeptOff: '节点暂不接受', AgentAway: '节点代理不在', Reserved: '已预留', GangWaiting: '等待整组空位', GangTooLarge: '整组过大',
  GangTopology: '整组拓扑不满足', GangIncomplete: '整组不完整', GangUnreadable: 'PodGroup 有误', DisruptionBudget: '受中断预算保护', VolumeMissing: '卷不存在', VolumeUnbound: '卷未绑定',
  VolumeElsewhere: '卷在别处', VolumeLimit: '卷数已满', KeptWhole: '整机保留', PromisedToFirst: '已承诺给队首', WaitingForPromise: '等待承诺的开始时间', RejectedByScheduler: '被调度器拒绝',
  ImagePull: '拉取镜像失败', ContainerConfig: '容器配置错误', ContainerStart: '容器启动失败', VolumeMount: '挂载卷', ProbeFailing: '探针失败', Crashing: '反复崩溃', OutOfMemory: '内存溢出',
  Retrying: '等待重试', QuotaExceeded: '超出配额', RefusedByPolicy: '被策略拒绝', SchedulerDown: '调度器停止', WaitingForTurn: '等待轮到', WaitsForJobs: '等待其他任务', Preempted: '被抢占',
  Evicted: '被驱逐', NodeLost: '节点失联', BrokenGPU: 'GPU 损坏', ToldToLeave: '需要让出', Unknown: '未知', Normal: '正常', Warning: '警告', HeldByKueue: '由 Kueue 暂停',
  Suspect: '可疑', NotAdmitted: '未准入', OutOfService: '停止服务', Moving: '正在迁移', Leaving: '正在离开', Joining: '正在加入',
};
