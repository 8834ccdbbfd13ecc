"""Sends a job with a working directory to argv[1] and follows its logs by WebSocket. Prints what it saw as one line of JSON."""

import asyncio
import json
import os
import sys

from ray.job_submission import JobSubmissionClient

headers = json.loads(os.environ["HEADERS"])
client = JobSubmissionClient(sys.argv[1], headers=headers)
seen = {"version": client.get_version() if hasattr(client, "get_version") else ""}
try:
    job = client.submit_job(entrypoint="cat word.txt && echo done", runtime_env={"working_dir": sys.argv[2]})
except Exception as refused:  # the text is what the test is about
    print(json.dumps({"refused": str(refused), "jobs": len(client.list_jobs())}))
    sys.exit(0)


async def tail():
    text = ""
    async for lines in client.tail_job_logs(job):
        text += lines
    return text


seen["tail"] = asyncio.run(asyncio.wait_for(tail(), 240))
seen["logs"] = client.get_job_logs(job)
seen["status"] = str(client.get_job_status(job).value)
print(json.dumps(seen))
